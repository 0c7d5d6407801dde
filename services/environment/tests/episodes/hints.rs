//! Types and docstrings of tools as people write them: the schema that the model reads, what is checked, and answers
//! that JSON does not have.

use std::process::Command;

use evenkeel_environment_service::{BRIDGE, BRIDGE_FILE};
use serde_json::{Value, json};

use crate::own::File;
use crate::support::{Stream, act, call};

const SHOP: &str = r#"
from __future__ import annotations

import dataclasses
import datetime
import enum
from typing import Annotated, Literal, NamedTuple, NewType, Optional, TypedDict, Union

from evenkeel_environment import Environment, tool

Name = NewType("Name", str)

class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"

@dataclasses.dataclass
class Item:
    name: str
    count: int = 1

class Place(NamedTuple):
    row: int
    column: int = 0

class Card(TypedDict):
    number: str

class Shop(Environment):
    class Size(enum.Enum):
        SMALL = 1
        LARGE = 2

    @tool
    def buy(self, item: Name, price: int, note: Optional[str] = None, colour: Colour = Colour.RED) -> str:
        """Buys
        an item.

        It is gone then.

        Args:
            item: what is
                bought
            price (int): in whole coins

        Returns:
            str: what is left
        """
        return [item, price, note, colour.name]

    @tool
    def sort(self, by: Literal["name", "price"], prices: list[int], rates: dict[str, float] | None = None, size: Size = None):
        """Sorts.

        Parameters
        ----------
        by : str
            what to
            sort by
        prices : list of int
            all of them

        Returns
        -------
        str
            the list
        """
        return [by, prices, rates, type(size).__name__]

    @tool
    def pay(self, items: list[Item], place: Place, card: Card | None = None, tip: Union[int, float, str] = 0, pair: tuple[int, str] = None):
        """Pays.

        :param items: what is
            paid for
        :param Place place: where
        :returns: nothing
        """
        return [[type(item).__name__ for item in items], place.column, card, tip, type(pair).__name__]

    @tool
    def odd(self, when: datetime.datetime, what, how: Unknown, rate: Annotated[float, "a share"] = float("inf")):
        """Takes anything."""
        return [when, what, how]
"#;

/// What one call is answered.
async fn said(stream: &mut Stream, turn: u32, tool: &str, arguments: &Value) -> String {
    let observed = stream.turn(act("a", turn, vec![call(turn, tool, &arguments.to_string())])).await;
    let text = observed.messages[0].content.clone();
    assert_eq!(observed.tool_errors == 1, text.starts_with("error: "), "{text}");
    text
}

#[tokio::test]
async fn types_and_docstrings_are_the_schema_of_a_tool() {
    let file = File::new(SHOP);
    let worker = file.worker(|_| {}).await;
    let info = worker.status().await.environments.into_iter().find(|info| info.name == file.name()).unwrap();
    let tool = |name: &str| {
        let tool = info.tools.iter().find(|tool| tool.name == name).unwrap();
        (tool.description.clone(), serde_json::from_str::<Value>(&tool.parameters).unwrap())
    };
    let (description, parameters) = tool("buy");
    assert_eq!(description, "Buys an item.");
    let item = json!({"type": "string", "description": "what is bought"});
    let price = json!({"type": "integer", "description": "in whole coins"});
    let colour = json!({"type": "string", "enum": ["red", "blue"], "default": "red"});
    let properties = json!({"item": item, "price": price, "note": {"type": ["string", "null"]}, "colour": colour});
    assert_eq!(parameters, json!({"type": "object", "properties": properties, "required": ["item", "price"]}));
    let by = json!({"type": "string", "enum": ["name", "price"], "description": "what to sort by"});
    let prices = json!({"type": "array", "items": {"type": "integer"}, "description": "all of them"});
    let rates = json!({"type": ["object", "null"], "additionalProperties": {"type": "number"}});
    let size = json!({"type": "integer", "enum": [1, 2]});
    assert_eq!(tool("sort").1["properties"], json!({"by": by, "prices": prices, "rates": rates, "size": size}));
    let (_, paid) = tool("pay");
    assert_eq!(paid["properties"]["items"]["description"], "what is paid for");
    assert_eq!(paid["properties"]["items"]["items"]["required"], json!(["name"]));
    assert_eq!(paid["properties"]["place"]["properties"]["column"], json!({"type": "integer"}));
    assert_eq!(paid["properties"]["place"]["description"], "where");
    assert_eq!(paid["properties"]["tip"], json!({"type": ["integer", "number", "string"], "default": 0}));
    let rate = json!({"type": "number", "description": "a share"});
    assert_eq!(tool("odd").1["properties"], json!({"when": {}, "what": {}, "how": {}, "rate": rate}));
}

#[tokio::test]
async fn an_argument_of_another_type_is_answered_and_the_others_arrive_as_their_types() {
    let file = File::new(SHOP);
    let worker = file.worker(|_| {}).await;
    let mut stream = worker.open().await;
    stream.begin("a", &file.name(), "{}").await;
    let item = json!({"name": "nail"});
    let cases = [
        ("buy", json!({"item": "nail", "price": "5"}), "error: `price` is \"5\", allowed: of type integer"),
        ("buy", json!({"item": "nail", "price": true}), "error: `price` is true, allowed: of type integer"),
        ("buy", json!({"item": "nail", "price": 5, "note": null}), "[\"nail\", 5, null, \"RED\"]"),
        ("buy", json!({"item": "nail", "price": 5, "note": 5}), "error: `note` is 5, allowed: of type string or null"),
        ("buy", json!({"item": "nail", "price": 5, "colour": "blue"}), "[\"nail\", 5, null, \"BLUE\"]"),
        (
            "buy",
            json!({"item": "nail", "price": 5, "colour": "pink"}),
            "error: `colour` is \"pink\", allowed: one of \"red\", \"blue\"",
        ),
        ("buy", json!({"item": "nail"}), "error: missing a required argument: 'price'"),
        ("sort", json!({"by": "name", "prices": [1, 2.5]}), "error: `prices[1]` is 2.5, allowed: of type integer"),
        ("sort", json!({"by": "size", "prices": []}), "error: `by` is \"size\", allowed: one of \"name\", \"price\""),
        (
            "sort",
            json!({"by": "name", "prices": [1], "rates": {"a": "b"}}),
            "error: `rates.a` is \"b\", allowed: of type number",
        ),
        ("sort", json!({"by": "name", "prices": [1], "size": 2}), "[\"name\", [1], null, \"Size\"]"),
        ("pay", json!({"items": [item], "place": {"row": 1}, "pair": [1, "a"]}), "[[\"Item\"], 0, null, 0, \"tuple\"]"),
        (
            "pay",
            json!({"items": [{"nom": "nail"}], "place": {"row": 1}}),
            "error: `items[0]` is {\"nom\": \"nail\"}, allowed: an object with name, count, required: name",
        ),
        (
            "pay",
            json!({"items": [], "place": {"row": 1}, "card": {"number": 7}}),
            "error: `card.number` is 7, allowed: of type string",
        ),
        ("pay", json!({"items": [], "place": {"row": 1}, "pair": [1]}), "error: `pair` is [1], allowed: a list of 2"),
        ("odd", json!({"when": 1, "what": [2], "how": {"a": "b"}}), "[1, [2], {\"a\": \"b\"}]"),
    ];
    for (turn, (tool, arguments, answer)) in (1..).zip(cases) {
        assert_eq!(said(&mut stream, turn, tool, &arguments).await, answer, "{tool} {arguments}");
    }
}

#[test]
fn what_has_no_type_is_named_and_what_users_import_is_one_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(BRIDGE_FILE), BRIDGE).unwrap();
    std::fs::write(folder.path().join("shop.py"), SHOP).unwrap();
    let script =
        "import evenkeel_environment, shop; print(*evenkeel_environment.description_of(shop.Shop)['notes'], sep='\\n')";
    let python = Command::new("python3").args(["-c", script]).current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8(python.stdout).unwrap();
    let notes: Vec<_> = said.lines().collect();
    assert_eq!(
        notes,
        [
            "the tool odd takes any value as `when`, since its type is not one of JSON: datetime",
            "the tool odd takes any value as `what`, since it has no type",
            "the tool odd takes any value as `how`, since its type is not one of JSON: Unknown (name 'Unknown' is not \
             defined)",
        ],
        "{}",
        String::from_utf8_lossy(&python.stderr)
    );
}

/// Answers what JSON does not have.
const ANSWERS: &str = r#"
import dataclasses
import datetime
import enum
from evenkeel_environment import Environment, tool

class Thing:
    pass

class Shelf:
    def __repr__(self):
        return "a shelf"

@dataclasses.dataclass
class Item:
    name: str
    shelf: Shelf

class Colour(str, enum.Enum):
    RED = "red"

def gives():
    yield 1

class Answers(Environment):
    @tool
    def answer(self, what: str):
        """Answers."""
        loop = [1]
        loop.append(loop)
        return {
            "tuples": {(1, "a"): 2, None: 3, 4: 5}, "object": Thing(), "function": gives, "list": [Thing(), Shelf()],
            "set": {"b", "a"}, "item": Item("nail", Shelf()), "enum": Colour.RED, "day": datetime.date(2026, 11, 29),
            "loop": loop, "generator": gives(),
        }[what]
"#;

#[tokio::test]
async fn answers_that_json_does_not_have_are_texts_that_never_differ() {
    let file = File::new(ANSWERS);
    let worker = file.worker(|_| {}).await;
    let mut stream = worker.open().await;
    stream.begin("a", &file.name(), "{}").await;
    let cases = [
        ("tuples", r#"{"[1, \"a\"]": 2, "null": 3, "4": 5}"#),
        ("object", "<odd.Thing object>"),
        ("function", "<function gives>"),
        ("list", r#"["<odd.Thing object>", "a shelf"]"#),
        ("set", r#"["a", "b"]"#),
        ("item", r#"{"name": "nail", "shelf": "a shelf"}"#),
        ("enum", "red"),
        ("day", "2026-11-29"),
        ("loop", "[1, [...]]"),
    ];
    for (turn, (what, answer)) in (1..).zip(cases) {
        assert_eq!(said(&mut stream, turn, "answer", &json!({"what": what})).await, answer, "{what}");
    }
    stream.send(act("a", 10, vec![call(10, "answer", r#"{"what": "generator"}"#)])).await;
    let (_, _, message) = stream.failed().await;
    assert!(message.contains("an answer has the generator gives in it"), "{message}");
}
