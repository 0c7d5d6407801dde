# What a user's file raised, told to the one who wrote it. It follows `pipe.py` in the program of a child.
import traceback

# Longest traceback, in characters, and its most calls, the innermost ones.
MAX_TRACEBACK = 3000
MAX_CALLS = 12


def of_user(frames, file):
    """The calls from the first one in the user's file on, without those of this program."""
    frames = [frame for frame in frames if frame.filename != "<string>"]
    first = next((number for number, frame in enumerate(frames) if frame.filename == file), 0)
    return frames[first:]


def in_one_line(error, file):
    """An exception in one line, with the last line of the user's file that led to it. A SyntaxError says its own line."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    where = f" (line {lines[-1]})" if lines else ""
    return " ".join(f"{type(error).__name__}: {error}".split()) + where


def traceback_of(error, file):
    """Python's traceback of an exception, from the user's file on; empty where no call is the user's."""
    raised = traceback.TracebackException.from_exception(error)
    calls = of_user(raised.stack, file)[-MAX_CALLS:]
    if not calls:
        return ""
    raised.stack = traceback.StackSummary.from_list(calls)
    text = "".join(raised.format()).rstrip()
    if len(text) > MAX_TRACEBACK:
        text = f"{text[:MAX_TRACEBACK // 2]}\n...\n{text[-MAX_TRACEBACK // 2:]}"
    return text
