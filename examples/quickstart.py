"""Train CAPO on CartPole, stop at a return of 200, then save, load and evaluate the policy."""

from capo import CAPO, StopOnReturn

model = CAPO("MlpPolicy", "CartPole-v1", experts=4, num_steps=128, seed=1)
model.learn(total_timesteps=100_000, callback=StopOnReturn(200))
model.save("cartpole.safetensors")

model = CAPO.load("cartpole.safetensors")
result = model.evaluate(episodes=10)
print(f"{result.mean:.0f} ± {result.standard_error:.0f} over {len(result.returns)} episodes")
