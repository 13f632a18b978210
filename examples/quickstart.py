"""Train CAPO on CartPole, save it, load it and watch how well it does."""

from capo import Config, Model, evaluate, generations

config = Config("CartPole-v1", algo="capo", total_steps=40_960, num_steps=128, seed=1)
step = None
for step in generations(config):
    if step.number % 10 == 0:
        print(f"{step.info['steps']:>6} steps, return {step.info['return']:.0f}")
assert step is not None

step.model.save("cartpole.safetensors")
model = Model.load("cartpole.safetensors")
result = evaluate(model, episodes=10)
print(f"{result.mean:.0f} ± {result.standard_error:.0f} over {len(result.returns)} episodes")
