//! Which custom verifiers settings may declare.

use std::collections::BTreeMap;

use evenkeel_proto::FieldError;
use evenkeel_rpc::dispatch::Endpoints as Workers;
use evenkeel_run_files::is_run_name;
use evenkeel_tasks::Verifiers;

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
                "[data.verifiers.games]\ndata_sources = [\"a*b\"]",
                "`data.verifiers.games.data_sources[0]` is \"a*b\" in",
            ),
        ] {
            let error = load(text).unwrap_err();
            assert!(error.starts_with(words), "{text}: {error}");
        }
        let twice = format!("{games}[data.verifiers.other]\ndata_sources = [\"game/*\"]");
        let error = load(&twice).unwrap_err();
        assert!(error.contains("verifiers.other.data_sources[0]") && error.contains("`games` has it"), "{error}");
    }

    #[test]
    fn where_a_verifier_is_may_change_when_a_run_is_resumed_and_what_it_judges_may_not() {
        let of = |text: &str| load(text).unwrap().result_affecting();
        let games = "[data.verifiers.games]\nendpoints = [\"http://games:1\"]\n";
        assert_eq!(of(games), of(&games.replace("games:1", "elsewhere:2")));
        assert_ne!(of(games), of(&format!("{games}data_sources = [\"a\"]")));
    }
}
