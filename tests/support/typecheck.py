"""The checker of array shapes and types; it accepts an int as a float, as Python does."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
