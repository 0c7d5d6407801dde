//! What a user sees of settings: which layer wins, and how mistakes are reported.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_config::{ByteSize, ConfigError, HumanDuration, Loader, OptionalHumanDuration, OtherNames, Settings};
use evenkeel_errors::FieldError;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Run {
    name: String,
    seed: u64,
    endpoints: Vec<String>,
    notes: Option<String>,
    rule: Rule,
    server: Server,
    lenient: Lenient,
    labels: BTreeMap<String, String>,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            name: "run".into(),
            seed: 1,
            endpoints: vec!["http://127.0.0.1:1".into()],
            notes: None,
            rule: Rule::Balanced,
            server: Server { port: 50051, rate: 0.5, ..Server::default() },
            lenient: Lenient::default(),
            labels: BTreeMap::new(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Rule {
    Balanced,
    Token,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Server {
    port: u16,
    rate: f64,
    #[serde(with = "HumanDuration")]
    drain: Duration,
    #[serde(with = "OptionalHumanDuration")]
    idle: Option<Duration>,
    max_message: ByteSize,
}

/// Settings whose author forgot `deny_unknown_fields`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
struct Lenient {
    depth: u32,
}

impl Settings for Run {
    const OTHER_NAMES: &'static [OtherNames] = &[OtherNames {
        whose: "a peer's",
        settings: &[("actor.optim.pace", "server.rate"), ("velocity", "server.rate")],
        words: &[],
    }];

    fn validate(&self) -> Result<(), FieldError> {
        if self.server.rate <= 0.0 {
            return Err(FieldError::new("server.rate", self.server.rate, "above 0"));
        }
        Ok(())
    }
}

fn variable(name: &str, text: &str) -> Vec<(String, String)> {
    vec![(name.into(), text.into())]
}

fn from_text(text: &str) -> Result<Run, ConfigError> {
    Ok(Loader::new().text("recipe.toml", text)?.load()?.settings)
}

fn from_set(argument: &str) -> Result<Run, ConfigError> {
    Ok(Loader::new().set([argument])?.load()?.settings)
}

fn message<T: std::fmt::Debug>(result: Result<T, ConfigError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn without_layers_the_defaults_hold() {
    assert_eq!(from_text("").unwrap(), Run::default());
}

#[test]
fn arguments_beat_environment_beats_files_beat_defaults() {
    let loaded = Loader::new()
        .set(["seed=5"])
        .unwrap()
        .variables([("EVENKEEL__SEED".into(), "4".into()), ("EVENKEEL__SERVER__PORT".into(), "4".into())])
        .unwrap()
        .text("one.toml", "seed = 2\nname = \"two\"\n[server]\nport = 2\nrate = 2.0")
        .unwrap()
        .text("two.toml", "name = \"three\"")
        .unwrap()
        .load::<Run>()
        .unwrap();
    let run = &loaded.settings;
    assert_eq!((run.seed, run.server.port, run.server.rate, run.name.as_str()), (5, 4, 2.0, "three"));
    assert_eq!(loaded.origin("seed"), "--set seed=5");
    assert_eq!(loaded.origin("server.port"), "environment variable EVENKEEL__SERVER__PORT");
    assert_eq!(loaded.origin("server.rate"), "one.toml");
    assert_eq!(loaded.origin("name"), "two.toml");
    assert_eq!(loaded.origin("rule"), "defaults");
}

#[test]
fn settings_written_out_load_to_the_same_settings() {
    let loaded = Loader::new().set(["notes=hello", "rule=token", "labels.team=blue"]).unwrap().load::<Run>().unwrap();
    assert_eq!(from_text(&loaded.to_toml().unwrap()).unwrap(), loaded.settings);
}

#[test]
fn a_misspelt_key_is_refused_with_its_neighbour() {
    assert_eq!(
        message(from_text("sed = 3")),
        "unknown key `sed` in recipe.toml, nearest allowed: `seed`, allowed here: name, seed, endpoints, notes, rule, \
         server, lenient, labels"
    );
    assert_eq!(
        message(from_text("[server]\nprot = 3")),
        "unknown key `server.prot` in recipe.toml, nearest allowed: `server.port`, allowed here: port, rate, drain, \
        idle, max_message"
    );
    assert_eq!(
        message(from_set("server.prot=3")),
        "unknown key `server.prot` in --set server.prot=3, nearest allowed: `server.port`, allowed here: port, rate, \
        drain, idle, max_message"
    );
}

#[test]
fn a_misspelt_environment_variable_is_refused() {
    let result = Loader::new().variables(variable("EVENKEEL__SEVER__PORT", "3")).unwrap().load::<Run>();
    let text = message(result);
    assert!(
        text.starts_with(
            "unknown key `sever` in environment variable EVENKEEL__SEVER__PORT, nearest allowed: `server`"
        ),
        "{text}"
    );
}

#[test]
fn keys_of_lenient_structs_are_refused_too() {
    assert_eq!(
        message(from_text("[lenient]\ndeth = 3")),
        "unknown key `lenient.deth` in recipe.toml, nearest allowed: `lenient.depth`, allowed here: depth"
    );
}

#[test]
fn a_wrong_type_names_key_value_and_what_is_allowed() {
    assert_eq!(message(from_text("seed = \"many\"")), "`seed` is \"many\" in recipe.toml, allowed: an integer");
    assert_eq!(message(from_text("seed = -1")), "`seed` is -1 in recipe.toml, allowed: an integer, at least 0");
    assert_eq!(message(from_text("server = 3")), "`server` is 3 in recipe.toml, allowed: a table");
    assert_eq!(
        message(from_set("server.port=70000")),
        "`server.port` is 70000 in --set server.port=70000, allowed: an integer from 0 to 65535"
    );
}

#[test]
fn an_unknown_choice_lists_the_choices() {
    assert_eq!(
        message(from_text("rule = \"ballanced\"")),
        "`rule` is \"ballanced\" in recipe.toml, allowed: one of balanced, token (nearest: balanced)"
    );
}

#[test]
fn a_value_out_of_range_is_refused_where_it_was_written() {
    assert_eq!(message(from_set("server.rate=0.0")), "`server.rate` is 0 in --set server.rate=0.0, allowed: above 0");
}

#[test]
fn a_text_that_looks_like_a_number_stays_a_text() {
    assert_eq!(from_set("name=007").unwrap().name, "007");
    assert_eq!(from_set("name=5").unwrap().name, "5");
    assert_eq!(from_set("name=true").unwrap().name, "true");
    assert_eq!(from_set("notes=5").unwrap().notes.as_deref(), Some("5"));
}

#[test]
fn lists_are_toml_or_comma_separated() {
    assert_eq!(from_set(r#"endpoints=["a", "b"]"#).unwrap().endpoints, ["a", "b"]);
    assert_eq!(from_set("endpoints=http://a:1, http://b:2").unwrap().endpoints, ["http://a:1", "http://b:2"]);
}

#[test]
fn an_element_of_a_list_is_named_by_its_position_and_shown() {
    assert_eq!(
        message(from_text("endpoints = [\"a\", [1]]")),
        "`endpoints[1]` is [1] in recipe.toml, allowed: a string"
    );
}

#[test]
fn broken_toml_names_file_and_line() {
    let text = message(from_text("seed = 1\nname = \n"));
    assert!(text.starts_with("recipe.toml is not TOML: TOML parse error at line 2"), "{text}");
}

#[test]
fn a_missing_file_is_named() {
    let text = message(Loader::new().file("/nonexistent/recipe.toml"));
    assert!(text.starts_with("cannot read settings from /nonexistent/recipe.toml: "), "{text}");
}

#[test]
fn durations_carry_their_unit_and_are_written_as_they_are_read() {
    let server = |text: &str| from_text(&format!("[server]\n{text}")).map(|run| run.server);
    let set = from_set("server.drain=1h 30m").unwrap();
    assert_eq!(set.server.drain, Duration::from_secs(5400));
    assert_eq!(server("idle = \"250ms\"").unwrap().idle, Some(Duration::from_millis(250)));
    assert_eq!(server("").unwrap().idle, None);
    let loaded = Loader::new().set(["server.drain=90s", "server.idle=7ms"]).unwrap().load::<Run>().unwrap();
    let written = loaded.to_toml().unwrap();
    assert!(written.contains("drain = \"1m 30s\"") && written.contains("idle = \"7ms\""), "{written}");
    assert_eq!(from_text(&written).unwrap(), loaded.settings);
    for (text, shown) in [("drain = 10", "10"), ("drain = \"10\"", "\"10\""), ("drain = \"soon\"", "\"soon\"")] {
        assert_eq!(
            message(server(text)),
            format!(
                "`server.drain` is {shown} in recipe.toml, allowed: a duration with its unit, such as 250ms, 10s or 1h \
                30m"
            )
        );
    }
    assert!(message(server("idle = 10")).ends_with("allowed: a duration with its unit, such as 250ms, 10s or 1h 30m"));
}

#[test]
fn sizes_carry_their_unit_and_are_written_as_they_are_read() {
    let size = |text: &str| from_text(&format!("[server]\nmax_message = {text}")).map(|run| run.server.max_message);
    assert_eq!(size("\"64MiB\"").unwrap(), ByteSize::mib(64));
    assert_eq!(size("\"1.5 KiB\"").unwrap().bytes(), 1536);
    assert_eq!(from_set("server.max_message=2GiB").unwrap().server.max_message, ByteSize::gib(2));
    let shown: Vec<_> =
        [0, 1, 1536, 1 << 20, (1 << 20) + 1, 3 << 30].map(|bytes| ByteSize::b(bytes).to_string()).into();
    assert_eq!(shown, ["0B", "1B", "1536B", "1MiB", "1048577B", "3GiB"]);
    for text in &shown {
        assert_eq!(size(&format!("\"{text}\"")).unwrap().to_string(), *text);
    }
    for (text, shown) in [("64", "64"), ("\"64\"", "\"64\""), ("\"many\"", "\"many\"")] {
        assert_eq!(
            message(size(text)),
            format!(
                "`server.max_message` is {shown} in recipe.toml, allowed: a size with its unit, such as 512KiB, 64MiB \
                or 2GiB"
            )
        );
    }
}

#[test]
fn a_key_of_another_program_is_refused_with_what_it_is_here() {
    for (text, words) in [
        (
            "velocity = 3",
            "unknown key `velocity` in recipe.toml: `velocity` is a peer's name; here it is `server.rate`",
        ),
        (
            "[lenient]\nvelocity = 3",
            "unknown key `lenient.velocity` in recipe.toml: `velocity` is a peer's name; here it is `server.rate`",
        ),
        (
            "[actor.optim]\npace = 3",
            "unknown key `actor.optim.pace` in recipe.toml: `actor.optim.pace` is a peer's name; here it is \
             `server.rate`",
        ),
    ] {
        assert_eq!(message(from_text(text)), words);
    }
    let text = message(from_text("[server]\nrat = 1"));
    assert!(text.contains("nearest allowed: `server.rate`"), "a slip of the pen: {text}");
}

#[test]
fn a_setting_in_the_wrong_section_is_refused_with_where_it_belongs() {
    let text = message(from_set("port=3"));
    assert!(text.starts_with("unknown key `port` in --set port=3, nearest allowed: `server.port`"), "{text}");
    let text = message(from_set("server=3"));
    assert_eq!(text, "`server` is 3 in --set server=3, allowed: a table");
}

#[test]
fn all_settings_that_cannot_be_read_are_refused_at_once() {
    let text = "seed = -1\nnmae = \"a\"\n[server]\nport = 70000\nrate = \"fast\"\n[labels]\na = 5";
    let found = message(Loader::new().text("recipe.toml", text).unwrap().set(["rule=tokens"]).unwrap().load::<Run>());
    let mut lines = found.lines();
    assert_eq!(lines.next(), Some("6 settings are refused:"));
    let keys = [
        "unknown key `nmae`",
        "`labels.a` is 5",
        "`rule` is \"tokens\"",
        "`seed` is -1",
        "`server.port` is 70000",
        "`server.rate` is \"fast\"",
    ];
    let lines: Vec<_> = lines.collect();
    for key in keys {
        assert!(lines.iter().any(|line| line.trim_start().starts_with(key)), "{key}: {found}");
    }
    assert_eq!(lines.len(), keys.len());
}

#[test]
fn a_text_of_an_override_is_read_as_one_beside_a_refused_setting() {
    let found = message(Loader::new().set(["name=5", "endpoints=a,b", "seed=x"]).unwrap().load::<Run>());
    assert_eq!(found, "`seed` is \"x\" in --set seed=x, allowed: an integer");
}

#[test]
fn all_settings_out_of_range_are_refused_at_once_but_for_those_that_follow_from_another() {
    let check = |loaded: &mut evenkeel_config::Loaded<Run>| {
        let Run { seed, server, lenient, .. } = &loaded.settings;
        FieldError::ensure(*seed > 0, "seed", seed, "at least 1")?;
        FieldError::ensure(server.rate > 0.0, "server.rate", server.rate, "above 0")?;
        FieldError::ensure(lenient.depth as u64 <= *seed, "lenient.depth", lenient.depth, "at most seed")
    };
    let load = |set: &[&str]| message(Loader::new().set(set).unwrap().load_if(check));
    assert_eq!(load(&["seed=0"]), "`seed` is 0 in --set seed=0, allowed: at least 1");
    let both = load(&["seed=0", "server.rate=-1", "lenient.depth=9"]);
    assert_eq!(
        both,
        "2 settings are refused:\n  `seed` is 0 in --set seed=0, allowed: at least 1\n  `server.rate` is -1 in --set \
         server.rate=-1, allowed: above 0"
    );
    assert!(load(&["lenient.depth=9"]).starts_with("`lenient.depth` is 9"));
}
