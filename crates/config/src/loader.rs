//! Layers of settings, in their order of precedence.

use std::path::Path;

use crate::document::{TomlLayer, parse, parse_file, to_toml};
use crate::merged::Merged;
use crate::overrides::{Override, Reading};
use crate::{ConfigError, Settings, wording};

/// Collects layers. Whatever the order of the calls, files come first, then the environment, then arguments.
#[derive(Debug, Default)]
pub struct Loader {
    files: Vec<TomlLayer>,
    variables: Vec<Override>,
    arguments: Vec<Override>,
}

/// Settings, and where each was written.
#[derive(Debug, Clone)]
pub struct Loaded<T> {
    pub settings: T,
    merged: Merged,
}

impl Loader {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a TOML file, over the files before it.
    pub fn file(self, path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        self.table(&path.display().to_string(), parse_file(path)?)
    }

    /// Adds TOML that comes from elsewhere; `origin` names it in messages.
    pub fn text(self, origin: &str, text: &str) -> Result<Self, ConfigError> {
        self.table(origin, parse(origin, text)?)
    }

    /// Adds a table, over the files before it; `origin` names it in messages.
    pub fn table(mut self, origin: &str, table: toml::Table) -> Result<Self, ConfigError> {
        self.files.push(TomlLayer::new(origin, table)?);
        Ok(self)
    }

    /// Adds the environment of the process.
    pub fn environment(self) -> Result<Self, ConfigError> {
        // A variable that is not Unicode has no name with our prefix.
        let variables =
            std::env::vars_os().filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)));
        self.variables(variables)
    }

    /// Adds environment variables; those without the prefix are ignored.
    pub fn variables(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        for (name, text) in variables {
            if let Some(variable) = Override::from_variable(&name, &text) {
                self.variables.push(variable?);
            }
        }
        // The environment has no order; error messages should.
        self.variables.sort_by(|a, b| a.origin.cmp(&b.origin));
        Ok(self)
    }

    /// Adds `section.key=value` arguments; the last one for a key wins.
    pub fn set<A: AsRef<str>>(mut self, arguments: impl IntoIterator<Item = A>) -> Result<Self, ConfigError> {
        for argument in arguments {
            self.arguments.push(Override::from_argument(argument.as_ref())?);
        }
        Ok(self)
    }

    /// The settings of all layers.
    pub fn load<T: Settings>(mut self) -> Result<Loaded<T>, ConfigError> {
        loop {
            let merged = self.over(Merged::defaults(T::default()));
            let error = match merged.settings::<T>() {
                Ok(settings) => return finish(settings, merged),
                Err(error) => error,
            };
            // `--set run.name=5` may mean the text `5`: that depends on the type of the setting.
            let reading = match () {
                () if wording::wants_text(&error) => Reading::Text,
                () if wording::wants_list(&error) => Reading::List,
                () => return Err(merged.explain(T::OTHER_NAMES, &error)),
            };
            // The last override of the key is the one whose value was refused.
            let mut overrides = self.arguments.iter_mut().rev().chain(self.variables.iter_mut().rev());
            match overrides.find(|set| set.wrote(&error.path)) {
                // Each override is reinterpreted at most once, so that the loop ends.
                Some(set) if set.reading == Reading::Toml => set.reading = reading,
                _ => return Err(merged.explain(T::OTHER_NAMES, &error)),
            }
        }
    }

    fn over(&self, defaults: Merged) -> Merged {
        let files = self.files.iter().fold(defaults, |merged, file| merged.with(file.clone()));
        self.variables.iter().chain(&self.arguments).fold(files, |merged, set| merged.with(set.clone()))
    }
}

impl<T: Settings> Loaded<T> {
    /// Where the value of `key` was written; `defaults` if nowhere.
    pub fn origin(&self, key: &str) -> String {
        self.merged.origin_or_defaults(key)
    }

    /// Whether `key` was written anywhere, be it with the value that it has by default.
    pub fn is_set(&self, key: &str) -> bool {
        self.merged.origin(key).is_some()
    }

    /// The settings as TOML, from which the same settings load.
    pub fn to_toml(&self) -> Result<String, ConfigError> {
        to_toml(&self.settings)
    }
}

fn finish<T: Settings>(settings: T, merged: Merged) -> Result<Loaded<T>, ConfigError> {
    if let Some(path) = merged.unread(&settings) {
        return Err(merged.explain_unread(T::OTHER_NAMES, &Merged::defaults(T::default()), &path));
    }
    if let Err(error) = settings.validate() {
        let origin = merged.origin_or_defaults(&error.field);
        return Err(ConfigError::Invalid { key: error.field, value: error.value, origin, allowed: error.allowed });
    }
    Ok(Loaded { settings, merged })
}
