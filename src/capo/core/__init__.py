"""The mathematics: families, networks, PPO, TRPO, experts, consensus, distillation, Fisher."""
