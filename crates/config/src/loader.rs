//! Layers of settings, in their order of precedence.

use std::path::Path;

use evenkeel_errors::FieldError;

use crate::document::{TomlLayer, parse, parse_file, to_toml};
use crate::merged::Merged;
use crate::overrides::{Override, Reading};
use crate::{ConfigError, Settings, wording};

/// Most settings that one error names.
const MOST_REFUSED: usize = 20;

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
    ///
    /// # Errors
    /// All settings that are refused.
    pub fn load<T: Settings>(self) -> Result<Loaded<T>, ConfigError> {
        self.load_if(|loaded: &mut Loaded<T>| loaded.settings.validate())
    }

    /// The settings of all layers, if `check` accepts them. It may derive settings from each other. After a refusal it
    /// runs again with the refused settings at their defaults.
    ///
    /// # Errors
    /// All settings that are refused.
    pub fn load_if<T: Settings>(
        self,
        check: impl Fn(&mut Loaded<T>) -> Result<(), FieldError>,
    ) -> Result<Loaded<T>, ConfigError> {
        let (settings, merged) = self.read::<T>()?;
        if let Some(path) = merged.unread(&settings) {
            return Err(merged.explain_unread(T::OTHER_NAMES, &Merged::defaults(T::default()), &path));
        }
        let mut loaded = Loaded { settings, merged };
        let Err(error) = check(&mut loaded) else { return Ok(loaded) };
        let mut refused = vec![error];
        let merged = loaded.merged;
        while refused.len() < MOST_REFUSED {
            let paths: Vec<_> = refused.iter().map(|error| parts(&error.field)).collect();
            let Ok(settings) = merged.settings::<T>(&paths) else { break };
            let mut loaded = Loaded { settings, merged: merged.clone() };
            match check(&mut loaded) {
                Err(error) if loaded.is_set(&error.field) && !follows(&error, &refused) => refused.push(error),
                _ => break,
            }
        }
        Err(ConfigError::all(refused.into_iter().map(|error| merged.refusal(error)).collect()))
    }

    /// Settings of the right types, and the layers that they are from.
    fn read<T: Settings>(mut self) -> Result<(T, Merged), ConfigError> {
        let (mut refused, mut paths) = (Vec::new(), Vec::new());
        loop {
            let merged = self.over(Merged::defaults(T::default()));
            let error = match merged.settings::<T>(&paths) {
                Ok(settings) if refused.is_empty() => return Ok((settings, merged)),
                Ok(_) => return Err(ConfigError::all(refused)),
                Err(error) => error,
            };
            if self.read_anew(&error) {
                continue;
            }
            let path = wording::path(&error);
            let is_known = paths.contains(&path);
            if !is_known {
                refused.push(merged.explain(T::OTHER_NAMES, &error));
            }
            // What is missing has no default.
            if is_known || path.is_empty() || refused.len() == MOST_REFUSED {
                return Err(ConfigError::all(refused));
            }
            paths.push(path);
        }
    }

    /// Reads the override that wrote a refused value in another way, if its setting takes texts or lists: `--set
    /// run.name=5` may mean the text `5`. Each override is read anew at most once.
    fn read_anew(&mut self, error: &figment::Error) -> bool {
        let reading = match () {
            () if wording::wants_text(error) => Reading::Text,
            () if wording::wants_list(error) => Reading::List,
            () => return false,
        };
        // The last override of the key is the one whose value was refused.
        let mut overrides = self.arguments.iter_mut().rev().chain(self.variables.iter_mut().rev());
        let found = overrides.find(|set| set.wrote(&error.path)).filter(|set| set.reading == Reading::Toml);
        found.map(|set| set.reading = reading).is_some()
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

/// The keys on the way to a field. What is in a list is refused with the list.
fn parts(field: &str) -> Vec<String> {
    let field = field.split('[').next().unwrap_or_default();
    field.split('.').map(str::to_owned).collect()
}

/// Whether an error may come from a default in place of what was refused before.
fn follows(error: &FieldError, refused: &[FieldError]) -> bool {
    refused.iter().any(|before| {
        let name = before.field.rsplit('.').next().unwrap_or_default();
        error.field == before.field || error.allowed.contains(name) || error.field.contains(name)
    })
}
