PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check

.PHONY: train test test-slow test-peers test-browser lint format docs docs-serve reproduce results spaces faults \
  bench bench-acting bench-diagnostics clean

train: .venv/.installed
	$(BIN)/capo train Hopper-v4 --algo capo -n 600k

test: .venv/.installed-dev
	$(BIN)/python -m pytest -n auto --dist loadgroup

# The tests that learn for a while: every method on the probes, CartPole, a picture, the examples.
test-slow: .venv/.installed-dev
	$(BIN)/python -m pytest -n auto --dist loadgroup -m slow

# The tests that need other projects. The version of PyTorch is one whose plain CPU build is small.
test-peers: .venv/.installed-peers
	$(BIN)/python -m pytest tests/peers

# The HTML report in a real browser; needs Debian's packages chromium and chromium-driver.
test-browser: .venv/.installed-browser
	$(BIN)/python -m pytest -rs tests/browser

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: .venv/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site, into site/; a broken link, an unknown name or a page that nothing leads to is an error.
docs: .venv/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "built: site/index.html"

docs-serve: .venv/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

# The runs of docs/results.md that results/ does not have: all of them take about six hours on two cores.
THREE := HalfCheetah-v4 Hopper-v4 Walker2d-v4
FOUR := ppo trpo capo-avg capo
reproduce: .venv/.installed-dev
	$(BIN)/capo reproduce main --envs $(THREE) --seeds 3 --out results
	$(BIN)/capo reproduce depth fisher-epochs --out results
	$(BIN)/capo reproduce attribution --out results
	$(BIN)/capo reproduce main --envs Ant-v4 --algos $(FOUR) --seeds 3 --out results
	$(BIN)/capo reproduce carry --envs Ant-v4 --algos capo-avg --out results
	$(BIN)/capo reproduce main --envs Humanoid-v4 --algos $(FOUR) --seeds 1 --steps 1M --out results
	$(BIN)/python benchmarks/pages.py

# What is made from results/: its tables, docs/results.md, the README's table and picture.
results: .venv/.installed-dev
	$(BIN)/python benchmarks/pages.py

# 56 runs of 100k to 500k steps: about an hour on two cores.
spaces: .venv/.installed-spaces
	$(BIN)/python benchmarks/spaces.py

# Kills, signals, full disks, damaged files, broken environments, NaN, a soak: 40 minutes on two cores.
faults: .venv/.installed-dev
	$(BIN)/python benchmarks/reliability.py

# Seconds a generation beside Stable-Baselines3, SBX and SB3-contrib: an hour on two cores,
# which should have nothing else to do.
bench: .venv/.installed-bench
	$(BIN)/python benchmarks/speed.py

bench-diagnostics: .venv/.installed-dev
	$(BIN)/python benchmarks/cost.py

bench-acting: .venv/.installed-dev
	$(BIN)/python benchmarks/acting.py

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.installed: pyproject.toml | .venv/bin/python
	@echo "installing capo into .venv"
	@$(PIP) --editable .
	@touch $@

.venv/.installed-dev: pyproject.toml | .venv/bin/python
	@echo "installing capo and what its tests need into .venv"
	@$(PIP) --editable '.[dev,envpool,play]'
	@touch $@ .venv/.installed

.venv/.installed-peers: .venv/.installed-dev
	@echo "installing Stable-Baselines3, ONNX Runtime, W&B and Trackio into .venv"
	@$(PIP) 'torch==2.13.0' --editable '.[sb3,onnx,wandb,trackio]'
	@touch $@

.venv/.installed-bench: .venv/.installed-dev
	@echo "installing Stable-Baselines3, SB3-contrib and SBX into .venv"
	@$(PIP) 'torch==2.13.0' --editable '.[bench]'
	@touch $@

.venv/.installed-spaces: .venv/.installed-dev
	@echo "installing MinAtar and Box2D into .venv"
	@$(PIP) --editable '.[box2d,minatar]'
	@touch $@

.venv/.installed-docs: .venv/.installed
	@echo "installing what the site is built with into .venv"
	@$(PIP) --editable '.[docs]'
	@touch $@

.venv/.installed-browser: .venv/.installed-dev
	@echo "installing Selenium into .venv"
	@$(PIP) --editable '.[browser]'
	@touch $@

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis dist site
