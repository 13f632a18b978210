PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check

.PHONY: train test quick test-slow test-peers test-browser lint format layers build docs docs-serve reproduce wider zoo results spaces faults \
  bench bench-acting bench-diagnostics clean

train: .venv/.installed
	$(BIN)/capo train Hopper-v4 --algo capo -n 600k
	@$(BIN)/python -m benchmarks.beside Hopper-v4 600000

test: .venv/.installed-dev
	$(BIN)/python -m pytest -n auto --dist loadgroup

# The tests that train nothing and start no process: a minute.
quick: .venv/.installed-dev
	$(BIN)/python -m pytest -n auto --dist loadgroup tests/core tests/paper tests/compare tests/report tests/storage \
	  tests/test_config.py tests/test_rollout.py tests/test_docs.py -k "not python_on_the_page"

# Slow tests: every method on the probe environments, CartPole, image observations, the examples.
test-slow: .venv/.installed-dev
	$(BIN)/python -m pytest -n auto --dist loadgroup -m slow

# Tests against other projects. This version of PyTorch has a small CPU build.
test-peers: .venv/.installed-peers
	$(BIN)/python -m pytest tests/peers

# The HTML report in a real browser; needs Debian's packages chromium and chromium-driver.
test-browser: .venv/.installed-browser
	$(BIN)/python -m pytest -rs tests/browser

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python docs/layers.py --check

format: .venv/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# docs/layers.svg, from the imports.
layers: .venv/.installed-dev
	$(BIN)/python docs/layers.py

# Wheel and sdist in dist/; the wheel is tested in an empty environment outside the checkout.
build: .venv/.installed-dev
	rm -rf dist
	$(BIN)/python -m build --outdir dist . > /dev/null
	$(BIN)/twine check --strict dist/*
	$(BIN)/python .ci/package.py dist

# The documentation in site/; a broken link, an unknown name or an unreachable page is an error.
docs: .venv/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "built: site/index.html"

docs-serve: .venv/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

# Trains the missing runs of docs/results.md: all of them take about six hours on two cores.
THREE := HalfCheetah-v4 Hopper-v4 Walker2d-v4
FOUR := ppo trpo capo-avg capo
reproduce: .venv/.installed-dev
	$(BIN)/capo reproduce main --envs $(THREE) --seeds 3 --out results
	$(BIN)/capo reproduce depth fisher-epochs --out results
	$(BIN)/capo reproduce attribution --out results
	$(BIN)/capo reproduce main --envs Ant-v4 --algos $(FOUR) --seeds 3 --out results
	$(BIN)/capo reproduce carry --envs Ant-v4 --algos capo-avg --out results
	$(BIN)/capo reproduce main --envs Humanoid-v4 --algos $(FOUR) --seeds 1 --steps 1M --out results
	$(BIN)/python -m benchmarks.write_results

# The runs of docs/arms.md that results/ does not have: about a day on two cores.
wider: .venv/.installed-dev
	$(BIN)/capo reproduce twins wider wider-best proof --out results
	$(BIN)/python -m benchmarks.write_results

# Tables and pictures from the runs in results/, in results/, docs/results.md and the README.
results: .venv/.installed-dev
	$(BIN)/python -m benchmarks.write_results

# What every row of the zoo reaches, in docs/zoo.md: half an hour on two cores.
zoo: .venv/.installed-dev
	$(BIN)/python -m benchmarks.zoo

# 56 runs of 100k to 500k steps: about an hour on two cores.
spaces: .venv/.installed-spaces
	$(BIN)/python -m benchmarks.action_spaces

# Kills, signals, full disks, damaged files, broken environments, NaN, a soak: 40 minutes on two cores.
faults: .venv/.installed-dev
	PYTHONPATH=tests $(BIN)/python -m support.faults

# Seconds per generation compared with Stable-Baselines3, SBX and SB3-contrib: an hour on two
# otherwise idle cores.
bench: .venv/.installed-bench
	$(BIN)/python -m benchmarks.speed

bench-diagnostics: .venv/.installed-dev
	$(BIN)/python -m benchmarks.diagnostics_cost

bench-acting: .venv/.installed-dev
	$(BIN)/python -m benchmarks.acting

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.installed: pyproject.toml | .venv/bin/python
	@echo "installing capo into .venv"
	@$(PIP) --editable .
	@touch $@

.venv/.installed-dev: pyproject.toml | .venv/bin/python
	@echo "installing capo and its development tools into .venv"
	@$(PIP) --editable '.[dev,envpool,play]'
	@touch $@ .venv/.installed

# Everything that the steps of .ci/run need, at once.
.venv/.installed-all: pyproject.toml | .venv/bin/python
	@echo "installing capo and everything that its checks need into .venv"
	@$(PIP) 'torch==2.13.0' --editable '.[dev,envpool,play,sb3,onnx,wandb,trackio,minatar,atari,docs,browser]'
	@touch $@ .venv/.installed .venv/.installed-dev .venv/.installed-peers .venv/.installed-docs .venv/.installed-browser

.venv/.installed-peers: .venv/.installed-dev
	@echo "installing Stable-Baselines3, ONNX Runtime, W&B, Trackio, MinAtar and ale-py into .venv"
	@$(PIP) 'torch==2.13.0' --editable '.[sb3,onnx,wandb,trackio,minatar,atari]'
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
	@echo "installing the documentation tools into .venv"
	@$(PIP) --editable '.[docs]'
	@touch $@

.venv/.installed-browser: .venv/.installed-dev
	@echo "installing Selenium into .venv"
	@$(PIP) --editable '.[browser]'
	@touch $@

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis dist site
