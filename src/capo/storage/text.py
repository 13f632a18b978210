"""Text out of files, made safe to print."""


def printable(text: str) -> str:
    """The text with control characters replaced, which a terminal would execute."""
    return "".join(c if c.isprintable() else "�" for c in text)


def one_line(text: str, most: int = 300) -> str:
    """The text on one line, printable, cut after `most` characters."""
    line = printable(" ".join(text[: 10 * most].split()))
    return line if len(line) <= most else line[: most - 1] + "…"
