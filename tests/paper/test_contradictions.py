"""Numbers in the paper that contradict one another."""

from capo.paper.contradictions import CONTRADICTIONS, furthest, same_settings
from capo.paper.tasks import ANT, CHEETAH


def test_contradictions_are_found_not_listed():
    assert furthest(same_settings("ppo", ANT)) > 15
    assert furthest(same_settings("ppo", CHEETAH)) < 2
    assert furthest({}) == 0
    ant = next(line for line in CONTRADICTIONS if line.startswith("ppo on Ant at the"))
    for number in ("2142 ± 97 (Table 4)", "316 ± 47 (Table 10", "295 ± 78 (Table 11"):
        assert number in ant
    whole = "\n".join(CONTRADICTIONS)
    for number in ("2463", "3210", "932", "3871", "2587", "Table 4 gives 9.2", "in 4 of 12 cells"):
        assert number in whole
    assert "falls from 3116 at K = 8 to 1746 at K = 16" in whole
    assert not any("\n" in line for line in CONTRADICTIONS)
