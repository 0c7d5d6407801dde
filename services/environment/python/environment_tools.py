# The tools of an environment as the model reads them, and its answers as text. The last part of evenkeel_environment.py, whose process it starts.



@functools.lru_cache(maxsize=None)
def parameters_of(kind, name):
    """The parameters of a tool by name, each with its schema and how an argument is read; and a sentence for each whose type says nothing."""
    method, parameters, notes = getattr(kind, name), {}, []
    listed = list(inspect.signature(method).parameters.values())
    if inspect.isfunction(method) and not isinstance(inspect.getattr_static(kind, name), staticmethod):
        listed = listed[1:]
    for parameter in listed:
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise TypeError(f"the tool {name} has a parameter `{parameter}`, allowed: parameters with names")
        unread, where = [], f"the tool {name} takes any value as `{parameter.name}`"
        try:
            schema, read = kind_of(hint_of(parameter.annotation, method, kind), unread)
        except Exception as error:  # whatever evaluating a type may raise
            (schema, read), unread = ({}, as_it_is), [f"{parameter.annotation} ({error})"]
        if parameter.annotation is parameter.empty:
            notes.append(f"{where}, since it has no type")
        elif unread:
            notes.append(f"{where}, since its type is not one of JSON: {', '.join(unread)}")
        default = plain_default(parameter.default)
        schema = schema if default is None else {**schema, "default": default}
        parameters[parameter.name] = (schema, read, parameter.default)
    return parameters, notes


def plain_default(default):
    """A default value that JSON has, or None."""
    try:
        default = default.value if isinstance(default, enum.Enum) else default
        json.dumps(default, allow_nan=False)
        return default if isinstance(default, (str, int, float, list, dict)) else None
    except (TypeError, ValueError):
        return None


def hint_of(annotation, method, kind):
    """A type as it was written, with names of the file, and of the class."""

    def holder():
        pass

    holder.__annotations__ = {"it": annotation}
    names = getattr(inspect.unwrap(method), "__globals__", {})
    extras = {"include_extras": True} if sys.version_info >= (3, 9) else {}
    try:
        return typing.get_type_hints(holder, names, **extras)["it"]
    except NameError:
        return typing.get_type_hints(holder, names, dict(vars(kind)), **extras)["it"]


def arguments_of(kind, call):
    """The arguments of a call as its tool gets them."""
    parameters, _ = parameters_of(kind, call.name)
    read = {}
    for name, value in call.arguments.items():
        _, reads, default = parameters[name]
        read[name] = None if value is None and default is None else reads(value, name)
    return read


def schema_of(kind, name):
    parameters, _ = parameters_of(kind, name)
    description, texts = described(inspect.getdoc(getattr(kind, name)) or "")
    if not description:
        raise TypeError(f"the tool {name} has no documentation, required: what it does, for the model")
    properties = {one: {**schema, "description": texts[one]} if one in texts else schema for one, (schema, _, _) in parameters.items()}
    required = [one for one, (_, _, default) in parameters.items() if default is inspect.Parameter.empty]
    return {"name": name, "description": description,
            "parameters": {"type": "object", "properties": properties, "required": required}}


SECTION = re.compile(r"(other |keyword )?(args|arguments|params|parameters|returns?|yields?|raises|examples?|notes?|attributes|warnings?):?$", re.I)
OF_PARAMETERS = re.compile(r".*(args|arguments|params|parameters):?$", re.I)
FIELD = re.compile(r":(\w+)([^:]*):\s*(.*)")
ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\((?:[^()]|\([^()]*\))*\))?\s*:\s*(.*)")


def described(doc):
    """The first paragraph of a docstring, and what it says of parameters, in the style of Google, NumPy or reST."""
    lines, about, texts = doc.splitlines(), [], {}
    style, names, margin, entries = None, [], 0, None
    for line, after in zip(lines, [*lines[1:], ""]):
        text, indent = line.strip(), len(line) - len(line.lstrip())
        is_underlined = len(after.strip()) > 2 and not after.strip().strip("-")
        if field := FIELD.match(text):
            is_parameter = field[1] in ("param", "parameter", "arg", "argument", "key", "keyword") and field[2].split()
            style, names, margin = "rest", [field[2].split()[-1].lstrip("*")] if is_parameter else [], indent
            texts.update({name: [field[3]] for name in names})
        elif text and (is_underlined or (text.endswith(":") and SECTION.match(text))):
            style = ("numpy" if is_underlined else "google") if OF_PARAMETERS.match(text) else "other"
            names, margin, entries = [], indent, None
        elif style is None:
            about.append(text)
        elif not text or not text.strip("-"):
            continue
        elif style == "numpy" and indent <= margin:
            names = [name.strip().lstrip("*") for name in text.split(":")[0].split(",")]
            texts.update({name: [] for name in names})
        elif style == "google" and indent > margin and (entry := ENTRY.match(text)) and indent <= (entries or indent):
            names, entries = [entry[1]], indent
            texts[entry[1]] = [entry[2]]
        elif indent > margin:
            for name in names:
                texts[name].append(text)
        else:
            style, names = "other", []
    paragraph = " ".join(itertools.takewhile(bool, about))
    return paragraph, {name: " ".join(filter(None, parts)) for name, parts in texts.items() if any(parts)}


# ---- Answers.

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def plain(value):
    """A value as JSON has it, without what differs from run to run, such as the address of an object."""
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    if inspect.iscoroutine(value) or inspect.isgenerator(value) or inspect.isasyncgen(value):
        raise TypeError(f"an answer has the {type(value).__name__} {value.__qualname__} in it, allowed: what it gives")
    if isinstance(value, collections.abc.Mapping):
        return {name if isinstance(name, str) else text_of(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(one) for one in value), key=json.dumps)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    for name in ("model_dump", "tolist"):  # pydantic; numpy and torch
        if callable(getattr(type(value), name, None)):
            return plain(getattr(value, name)())
    return ADDRESS.sub("", str(value))


def text_of(value):
    """An answer as text that can be sent: JSON where it is no text, cut, and without halves of characters."""
    try:
        value = plain(value)
    except RecursionError:
        value = ADDRESS.sub("", str(value))
    text = str(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = text.encode("utf-8", "replace").decode("utf-8")
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}\n[cut off: {MAX_TEXT} of {len(text)} characters]"
    return text


if __name__ == "__main__":
    main()
