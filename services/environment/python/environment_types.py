# What the types of a tool's parameters say: their JSON schema, and how an argument is checked and read. The third part of
# evenkeel_environment.py.


class WrongArgument(ValueError):
    """An argument that a tool does not take: the model reads why."""

    def __init__(self, at, value, allowed, is_within=False):
        super().__init__(f"`{at}` is {json.dumps(plain(value), ensure_ascii=False)[:80]}, allowed: {allowed}")
        self.at, self.is_within = at, is_within


SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))


def as_it_is(value, at):
    return value


def allowed_by(schema):
    """What a schema allows, in words."""
    if "enum" in schema:
        return "one of " + ", ".join(json.dumps(one, ensure_ascii=False) for one in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(allowed_by(one) for one in schema["anyOf"])
    names = schema.get("type", "")
    return "of type " + (names if isinstance(names, str) else " or ".join(names))


def kind_of(hint, unread):
    """The JSON schema of a type, and a function that checks a value of the model and gives what the tool gets: `read(value, at)`. A type that JSON
    does not have takes any value, and is added to `unread`."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if hint in (inspect.Parameter.empty, typing.Any, object):
        return {}, as_it_is
    if hasattr(hint, "__metadata__"):  # Annotated
        schema, read = kind_of(inside[0], unread)
        texts = [one if isinstance(one, str) else getattr(one, "description", None) for one in hint.__metadata__]
        text = next((one for one in texts if isinstance(one, str)), None)
        return ({**schema, "description": text} if text else schema), read
    for name in ("__supertype__", "__value__"):  # NewType, and `type X = ...`
        if hasattr(hint, name):
            return kind_of(getattr(hint, name), unread)
    if origin is getattr(typing, "Literal", None):
        return one_of({one.value if isinstance(one, enum.Enum) else one: one for one in inside})
    if origin in UNIONS:
        return any_of([kind_of(one, unread) for one in inside])
    concrete = origin or hint
    if isinstance(concrete, type):
        if concrete in SCALARS:
            return scalar(SCALARS[concrete])
        if issubclass(concrete, enum.Enum):
            by_value = all(isinstance(one.value, (str, int, float)) for one in concrete)
            return one_of({one.value if by_value else one.name: one for one in concrete})
        if hasattr(concrete, "__total__"):  # TypedDict
            optional = getattr(concrete, "__optional_keys__", ())
            return record(concrete, [name for name in hints_of(concrete) if name not in optional], dict, unread)
        if dataclasses.is_dataclass(concrete):
            fields = [field for field in dataclasses.fields(concrete) if field.init]
            required = [field.name for field in fields if field.default is field.default_factory is dataclasses.MISSING]
            return record(concrete, required, functools.partial(built, concrete), unread, [field.name for field in fields])
        if hasattr(concrete, "model_json_schema"):  # pydantic
            return model_of_pydantic(concrete)
        if issubclass(concrete, tuple):
            return tuple_of(concrete, inside, unread)
        if concrete in (set, frozenset) or concrete.__module__ in ("builtins", "collections.abc"):
            if issubclass(list, concrete):
                return array(inside[:1], list, unread)
            if issubclass(dict, concrete):
                return mapping(inside, unread)
            if issubclass(set, concrete) or concrete is frozenset:
                return array(inside[:1], frozenset if concrete is frozenset else set, unread)
    unread.append(getattr(hint, "__name__", None) or str(hint))
    return {}, as_it_is


def scalar(name):
    schema, types_of = {"type": name}, {SCALARS[one]: one for one in SCALARS}
    wanted = (int, float) if name == "number" else types_of[name]

    def read(value, at):
        if not isinstance(value, wanted) or (isinstance(value, bool) and name in ("integer", "number")):
            raise WrongArgument(at, value, allowed_by(schema))
        return value

    return schema, read


def one_of(values):
    """One of some values; what the tool gets stands behind each."""
    names = list(dict.fromkeys(SCALARS[type(one)] for one in values if type(one) in SCALARS))
    schema = {"enum": list(values)}
    if len(names) == 1:
        schema = {"type": names[0], **schema}

    def read(value, at):
        for one, given in values.items():
            if type(one) is type(value) and one == value:  # 1 is not True
                return given
        raise WrongArgument(at, value, allowed_by(schema))

    return schema, read


def any_of(kinds):
    schemas = [schema for schema, _ in kinds]
    null = {"type": "null"}
    others = [schema for schema in schemas if schema != null]
    if {} in schemas:
        schema = {}
    elif all(set(schema) == {"type"} and isinstance(schema["type"], str) for schema in schemas):
        schema = {"type": list(dict.fromkeys(schema["type"] for schema in schemas))}
    elif null in schemas and len(others) == 1 and isinstance(others[0].get("type"), str):
        schema = {**others[0], "type": [others[0]["type"], "null"]}
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
    else:
        schema = {"anyOf": schemas}

    def read(value, at):
        inner = None
        for _, one in kinds:
            try:
                return one(value, at)
            except WrongArgument as error:
                inner = error if error.is_within or error.at != at else inner
        # What is wrong within a list says more than that it is none of the types.
        raise inner or WrongArgument(at, value, allowed_by(schema))

    return schema, read


def require(value, at, kind, schema):
    if not isinstance(value, kind):
        raise WrongArgument(at, value, allowed_by(schema))


def made(make, value, at):
    """What a tool gets for a value, from a type of the user's own."""
    try:
        return make(value)
    except (TypeError, ValueError) as error:
        raise WrongArgument(at, value, f"what its type takes ({error})", is_within=True) from None


def built(concrete, values):
    return concrete(**values)


def array(inside, make, unread):
    items, read_item = kind_of(inside[0], unread) if inside else ({}, as_it_is)
    schema = {"type": "array", "items": items} if items else {"type": "array"}
    if make in (set, frozenset):
        schema["uniqueItems"] = True

    def read(value, at):
        require(value, at, list, schema)
        return made(make, [read_item(one, f"{at}[{index}]") for index, one in enumerate(value)], at)

    return schema, read


def tuple_of(concrete, inside, unread):
    if hasattr(concrete, "_fields"):  # NamedTuple
        required = [name for name in concrete._fields if name not in concrete._field_defaults]
        return record(concrete, required, functools.partial(built, concrete), unread, concrete._fields)
    if len(inside) != 2 or inside[1] is not ...:
        if not inside:
            return array((), tuple, unread)
        kinds = [kind_of(one, unread) for one in inside]
        schema = {"type": "array", "prefixItems": [schema for schema, _ in kinds], "minItems": len(kinds), "maxItems": len(kinds)}

        def read(value, at):
            require(value, at, list, schema)
            if len(value) != len(kinds):
                raise WrongArgument(at, value, f"a list of {len(kinds)}", is_within=True)
            return tuple(read(one, f"{at}[{index}]") for index, ((_, read), one) in enumerate(zip(kinds, value)))

        return schema, read
    schema, read_list = array(inside[:1], list, unread)
    return schema, lambda value, at: tuple(read_list(value, at))


def mapping(inside, unread):
    values, read_value = kind_of(inside[1], unread) if inside else ({}, as_it_is)
    schema = {"type": "object", "additionalProperties": values} if values else {"type": "object"}
    # Keys are texts in JSON.
    key = inside[0] if inside and inside[0] in (int, float) else str

    def read(value, at):
        require(value, at, dict, schema)
        return {made(key, name, at): read_value(one, f"{at}.{name}") for name, one in value.items()}

    return schema, read


def hints_of(kind):
    return typing.get_type_hints(kind, **({"include_extras": True} if sys.version_info >= (3, 9) else {}))


def record(concrete, required, make, unread, names=None):
    """An object with these names, such as a dataclass."""
    hints = hints_of(concrete)
    kinds = {name: kind_of(hints.get(name, typing.Any), unread) for name in names or hints}
    schema = {"type": "object", "properties": {name: kind[0] for name, kind in kinds.items()}, "required": list(required)}

    def read(value, at):
        require(value, at, dict, schema)
        unknown = [name for name in value if name not in kinds]
        absent = [name for name in required if name not in value]
        if unknown or absent:
            allowed = f"an object with {', '.join(kinds)}, required: {', '.join(required) or 'none'}"
            raise WrongArgument(at, value, allowed, is_within=True)
        return made(make, {name: kinds[name][1](one, f"{at}.{name}") for name, one in value.items()}, at)

    return schema, read


def model_of_pydantic(concrete):
    return concrete.model_json_schema(), lambda value, at: made(concrete.model_validate, value, at)
