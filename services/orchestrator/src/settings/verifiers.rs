//! Which custom verifiers settings may declare.

use std::collections::BTreeMap;

use evenkeel_config::human;
use evenkeel_data::Verifiers;
use evenkeel_proto::FieldError;
use evenkeel_rpc::dispatch::Endpoints as Workers;
use evenkeel_run::is_run_name;

use super::components::{BARE, CORRECTNESS, FORMAT, LENGTH};
use super::correct::CorrectRule;
use super::data_section::DataSettings;
use super::verifier_section::VerifierSettings;

impl DataSettings {
    pub(super) fn validate_verifiers(&self) -> Result<(), FieldError> {
        let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, verifier) in &self.verifiers {
            let plain = is_run_name(name) && !Verifiers::BUILT_IN.contains(&name.as_str());
            let allowed = "letters, digits, `-`, `_` and `.`, and neither `math` nor `code`, which are built in";
            if !plain {
                return Err(FieldError::quoted("verifiers", name, allowed));
            }
            verifier.validate(&mut taken, name).map_err(|error| error.within(format_args!("verifiers.{name}")))?;
        }
        self.known("verifier", &self.verifier)?;
        let mut sources = self.sources.iter().enumerate();
        sources.try_for_each(|(index, source)| self.known(&format!("sources[{index}].verifier"), &source.verifier))
    }

    fn known(&self, field: &str, name: &str) -> Result<(), FieldError> {
        let built_in = Verifiers::BUILT_IN.contains(&name);
        if name.is_empty() || built_in || self.verifiers.contains_key(name) {
            return Ok(());
        }
        let known = self.verifiers.keys().map(String::as_str).chain(Verifiers::BUILT_IN);
        let allowed = format!("one of {} (data.verifiers declares others)", known.collect::<Vec<_>>().join(", "));
        Err(FieldError::quoted(field, name, allowed))
    }
}

impl VerifierSettings {
    fn validate<'a>(&'a self, taken: &mut BTreeMap<&'a str, &'a str>, name: &'a str) -> Result<(), FieldError> {
        if !self.endpoints.is_empty() {
            Workers::parse(&self.endpoints)?;
        }
        let places = [!self.endpoints.is_empty(), self.path.is_some(), !self.command.is_empty(), self.judge];
        if places.into_iter().filter(|is_set| *is_set).count() > 1 {
            return Err(FieldError::new("", "in several places", "one of `endpoints`, `path`, `command` and `judge`"));
        }
        self.validate_functions()?;
        let correct = self.correct.iter();
        let validated = correct.clone().try_for_each(CorrectRule::validate);
        let in_range = || correct.filter(|_| self.range.is_some()).try_for_each(CorrectRule::validate_in_range);
        validated.and_then(|()| in_range()).map_err(|error| error.within("correct"))?;
        for (index, source) in self.data_sources.iter().enumerate() {
            let field = format!("data_sources[{index}]");
            let inner = source.strip_suffix('*').unwrap_or(source);
            let good = !source.is_empty() && !inner.contains('*');
            FieldError::ensure(good, &field, format_args!("{source:?}"), "a text with `*` only at its end")?;
            if let Some(other) = taken.insert(source, name) {
                let allowed = format!("a value that no other verifier has (`{other}` has it)");
                return Err(FieldError::quoted(field, source, allowed));
            }
        }
        Ok(())
    }
}

impl VerifierSettings {
    fn validate_functions(&self) -> Result<(), FieldError> {
        if self.path.is_none() {
            let allowed = "absent without `path`";
            FieldError::ensure(self.functions.is_empty(), "functions", "present", allowed)?;
        }
        for (name, weight) in &self.functions {
            let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            let field = || format!("functions.{name}");
            FieldError::ensure(plain, "functions", format_args!("{name:?}"), "the name of a function in the file")?;
            let reserved = [CORRECTNESS, LENGTH, FORMAT, BARE].contains(&name.as_str());
            let allowed =
                "a name other than correctness, length, format and bare, which are components of every reward";
            FieldError::ensure(!reserved, "functions", format_args!("{name:?}"), allowed)?;
            FieldError::ensure(weight.is_finite() && *weight > 0.0, field(), weight, "a finite number above 0")?;
        }
        if let Some([low, high]) = self.range {
            let good = low.is_finite() && high.is_finite() && low < high;
            let allowed = "two finite numbers, the lower one first";
            FieldError::ensure(good, "range", format_args!("[{low}, {high}]"), allowed)?;
        }
        FieldError::ensure(!self.timeout.is_zero(), "timeout", human(self.timeout), "above 0")?;
        let has_room = self.max_memory.bytes() == 0 || self.max_memory.bytes() >= 1 << 26;
        FieldError::ensure(has_room, "max_memory", self.max_memory, "0B for no limit, or at least 64MiB")?;
        FieldError::ensure((1..=64).contains(&self.processes), "processes", self.processes, "1 to 64")
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::tests::load;

    #[test]
    fn a_verifier_has_a_name_addresses_and_data_sources_of_its_own() {
        let games = "[data.verifiers.games]\nendpoints = [\"http://games:1\"]\ndata_sources = [\"game/*\"]\n";
        assert!(load(games).is_ok());
        for (text, words) in [
            ("[data]\nverifier = \"games\"", "`data.verifier` is \"games\" in test, allowed: one of math, code"),
            (
                "[[data.sources]]\nfiles = [\"x\"]\nverifier = \"games\"",
                "`data.sources[0].verifier` is \"games\" in test, allowed: one of math, code",
            ),
            ("[data.verifiers.math]\nendpoints = [\"http://a:1\"]", "`data.verifiers` is \"math\" in"),
            ("[data.verifiers.games]\nendpoints = [\"games\"]", "`data.verifiers.games.endpoints"),
            (
                "[data.verifiers.games]\nendpoint = \"http://a:1\"",
                "unknown key `data.verifiers.games.endpoint` in test",
            ),
            (
                "[data.verifiers.games]\npath = \"a.py\"\nendpoints = [\"http://a:1\"]",
                "`data.verifiers.games` is in several places in",
            ),
            (
                "[data.verifiers.games]\njudge = true\nendpoints = [\"http://a:1\"]",
                "`data.verifiers.games` is in several places in",
            ),
            (
                "[data.verifiers.games]\npath = \"a.py\"\nfunctions = { length = 1.0 }",
                "`data.verifiers.games.functions` is \"length\" in",
            ),
            (
                "[data.verifiers.games]\npath = \"a.py\"\nrange = [1.0, 0.0]",
                "`data.verifiers.games.range` is [1, 0] in",
            ),
            ("[data.verifiers.games]\nfunctions = { a = 1.0 }", "`data.verifiers.games.functions` is present in"),
            (
                "[data.verifiers.games]\npath = \"a.py\"\nmax_memory = \"1MiB\"",
                "`data.verifiers.games.max_memory` is 1MiB in test, allowed: 0B for no limit, or at least 64MiB",
            ),
            (
                "[data.verifiers.games]\ndata_sources = [\"a*b\"]",
                "`data.verifiers.games.data_sources[0]` is \"a*b\" in",
            ),
        ] {
            let error = load(text).unwrap_err();
            assert!(error.starts_with(words), "{text}: {error}");
        }
        assert!(load("[data.verifiers.games]\npath = \"a.py\"\nmax_memory = \"0B\"").is_ok());
        let twice = format!("{games}[data.verifiers.other]\ndata_sources = [\"game/*\"]");
        let error = load(&twice).unwrap_err();
        assert!(error.contains("verifiers.other.data_sources[0]") && error.contains("`games` has it"), "{error}");
    }

    #[test]
    fn where_a_verifier_is_may_change_when_a_run_is_resumed_and_what_it_judges_may_not() {
        let affecting = |text: &str| load(text).unwrap().result_affecting();
        let games = "[data.verifiers.games]\nendpoints = [\"http://games:1\"]\n";
        assert_eq!(affecting(games), affecting(&games.replace("games:1", "elsewhere:2")));
        assert_ne!(affecting(games), affecting(&format!("{games}data_sources = [\"a\"]")));
    }
}
