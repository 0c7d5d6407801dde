//! Layers: a recipe, what it builds on (`base`), and the recipes that are put over it, in the order in which they are
//! merged.
//!
//! `base` is the name of a recipe, or a list of them: built-in recipes, or files next to the one that names them. A
//! recipe comes over its bases. One that is reached twice counts once, where it is reached first, so that two overlays
//! may build on the same base and the second one undoes nothing of the first.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use evenkeel_config::{ConfigError, Loaded, Loader, Settings, misspelt, nearest, parse, parse_file};
use toml::{Table, Value};

use super::built_in;
use super::named_after::{self, NAMED_AFTER, Named};

/// The key with what a recipe builds on.
const BASE: &str = "base";

/// Recipes in the order in which they are merged; later ones win.
#[derive(Debug, Default)]
pub(super) struct Layers {
    layers: Vec<Layer>,
    /// The recipes whose bases are being added, to find those that build on themselves.
    open: Vec<LayerSource>,
}

/// One recipe without its `base` and `named_after`.
#[derive(Debug)]
struct Layer {
    source: LayerSource,
    table: Table,
    /// Keys of the settings that its name stands for.
    named_after: Vec<String>,
    /// The identities of all recipes that it builds on.
    builds_on: BTreeSet<String>,
}

/// Where a recipe comes from.
#[derive(Debug, Clone)]
struct LayerSource {
    /// Name in messages.
    origin: String,
    /// Equal for equal recipes, however a path to one is spelt.
    identity: String,
}

impl From<String> for LayerSource {
    fn from(origin: String) -> Self {
        Self { identity: origin.clone(), origin }
    }
}

/// What a name may stand for.
#[derive(Debug, Clone, Copy)]
enum Within<'a> {
    /// A built-in recipe, or a file, from this folder.
    Folder(&'a Path),
    Program,
}

impl Layers {
    /// The recipes of these names or paths, each over the ones before.
    pub(super) fn of<S: AsRef<str>>(recipes: &[S]) -> Result<Self, ConfigError> {
        let mut layers = Self::default();
        for name in recipes {
            layers.add(name.as_ref(), Within::Folder(Path::new("")), ("recipe", "the command line"))?;
        }
        named_after::refuse_other_names(&layers.named())?;
        Ok(layers)
    }

    /// A text that may build on built-in recipes, but on no files.
    pub(super) fn of_text(origin: &str, text: &str) -> Result<Self, ConfigError> {
        let mut layers = Self::default();
        layers.add_table(origin.to_owned().into(), parse(origin, text)?, Within::Program)?;
        named_after::refuse_other_names(&layers.named())?;
        Ok(layers)
    }

    fn named(&self) -> Vec<Named<'_>> {
        fn of(layer: &Layer) -> Named<'_> {
            let Layer { source, table, named_after, builds_on } = layer;
            Named { origin: &source.origin, identity: &source.identity, table, named_after, builds_on }
        }
        self.layers.iter().map(of).collect()
    }

    /// What is to be said where the environment or `--set` has changed what a recipe is named after.
    ///
    /// # Errors
    /// Settings that cannot be written down.
    pub(super) fn renamed<T: Settings>(&self, loaded: &Loaded<T>) -> Result<Vec<String>, ConfigError> {
        named_after::renamed(&self.named(), loaded)
    }

    /// Hands them to a loader.
    pub(super) fn loader(self) -> Result<Loader, ConfigError> {
        self.layers.into_iter().try_fold(Loader::new(), |loader, layer| loader.table(&layer.source.origin, layer.table))
    }

    /// One table with what the last of them to set a key says.
    pub(super) fn merged(self) -> Table {
        self.layers.into_iter().fold(Table::new(), |mut merged, layer| {
            merge(&mut merged, layer.table);
            merged
        })
    }

    /// What is to be said of recipes that the later ones override key by key, as a full listing of settings does that
    /// is put over them.
    pub(super) fn without_effect(&self) -> Vec<String> {
        let mut said = Vec::new();
        for (index, layer) in self.layers.iter().enumerate() {
            let keys = keys(&layer.table);
            let over = |other: &&Layer| {
                let theirs = self::keys(&other.table);
                !keys.is_empty() && keys.iter().all(|key| theirs.contains(key))
            };
            if let Some(over) = self.layers[index + 1..].iter().find(over) {
                said.push(format!(
                    "{} has no effect: {} sets every key of it (evenkeel config --changed prints only what differs \
                    from the defaults)",
                    layer.source.origin, over.source.origin
                ));
            }
        }
        said
    }

    /// Adds a recipe after its bases and returns its identity. `asked` is the key that names it, and where that was
    /// written.
    fn add(&mut self, name: &str, within: Within<'_>, asked: (&str, &str)) -> Result<String, ConfigError> {
        if let Some(text) = built_in::text(name) {
            let origin = format!("recipe {name}");
            let table = parse(&origin, &text)?;
            return self.add_table(origin.into(), table, Within::Program);
        }
        let path = match within {
            Within::Folder(folder) => folder.join(name),
            Within::Program => return Err(unknown(name, asked, "", None)),
        };
        if !path.exists() {
            let beside = file_beside(&path);
            let is_file = path.extension().is_some_and(|extension| extension == "toml");
            if beside.is_some() || !is_file {
                return Err(unknown(name, asked, ", or a TOML file", beside));
            }
        }
        let table = parse_file(&path)?;
        let folder = path.parent().map_or_else(PathBuf::new, Path::to_owned);
        let identity = path.canonicalize().unwrap_or_else(|_| path.clone()).display().to_string();
        self.add_table(LayerSource { origin: path.display().to_string(), identity }, table, Within::Folder(&folder))
    }

    fn add_table(&mut self, source: LayerSource, mut table: Table, within: Within<'_>) -> Result<String, ConfigError> {
        let bases = names(BASE, table.remove(BASE), &source.origin)?;
        let named_after = names(NAMED_AFTER, table.remove(NAMED_AFTER), &source.origin)?;
        if self.open.iter().any(|open| open.identity == source.identity) {
            let from = self.open.last().map_or("", |from| &from.origin);
            return Err(ConfigError::Invalid {
                key: BASE.to_owned(),
                value: source.origin,
                origin: from.to_owned(),
                allowed: "a recipe that does not build on this one".to_owned(),
            });
        }
        if self.layers.iter().any(|layer| layer.source.identity == source.identity) {
            return Ok(source.identity);
        }
        self.open.push(source.clone());
        let mut builds_on = BTreeSet::new();
        for name in bases {
            let base = self.add(&name, within, (BASE, &source.origin))?;
            let layer = self.layers.iter().find(|layer| layer.source.identity == base);
            builds_on.extend(layer.into_iter().flat_map(|layer| layer.builds_on.iter().cloned()));
            builds_on.insert(base);
        }
        self.open.pop();
        let identity = source.identity.clone();
        self.layers.push(Layer { source, table, named_after, builds_on });
        Ok(identity)
    }
}

/// The names in `base` or `named_after`.
fn names(key: &str, value: Option<Value>, origin: &str) -> Result<Vec<String>, ConfigError> {
    let names: Option<Vec<String>> = match &value {
        None => Some(Vec::new()),
        Some(Value::String(name)) => Some(vec![name.clone()]),
        Some(Value::Array(names)) => names.iter().map(|name| name.as_str().map(str::to_owned)).collect(),
        Some(_) => None,
    };
    let what = if key == BASE { "recipe" } else { "setting" };
    names.ok_or_else(|| ConfigError::Invalid {
        key: key.to_owned(),
        value: value.map_or_else(String::new, |value| value.to_string()),
        origin: origin.to_owned(),
        allowed: format!("the name of a {what}, or a list of names"),
    })
}

/// The TOML file in the same folder whose name is nearly that of a path.
fn file_beside(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let files = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let files = files.filter(|file| file.extension().is_some_and(|extension| extension == "toml"));
    let stem = |file: &PathBuf| Some(file.file_stem()?.to_str()?.to_owned());
    let mut stems: Vec<String> = files.filter_map(|file| stem(&file)).collect();
    stems.sort();
    let near = misspelt(path.file_stem()?.to_str()?, stems.iter().map(String::as_str))?;
    Some(path.with_file_name(format!("{near}.toml")))
}

fn unknown(name: &str, (key, origin): (&str, &str), or: &str, beside: Option<PathBuf>) -> ConfigError {
    let names = built_in::names();
    let near = nearest(name, names.iter().map(String::as_str));
    ConfigError::Invalid {
        key: key.to_owned(),
        value: format!("\"{name}\""),
        origin: origin.to_owned(),
        allowed: match (near, beside) {
            (_, Some(file)) => format!("{} is the nearest file", file.display()),
            _ if name.contains('=') => format!("the name of a recipe{or}; a setting is written as --set '{name}'"),
            // The whole list would hide it.
            (Some(near), _) => format!("{near} is the nearest recipe{or} (evenkeel config --list prints all)"),
            (None, _) => format!("one of {}{or}", names.join(", ")),
        },
    }
}

/// The keys of a table with their paths, without the tables that they are in.
fn keys(table: &Table) -> BTreeSet<String> {
    fn collect(table: &Table, path: &str, into: &mut BTreeSet<String>) {
        for (key, value) in table {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            match value {
                Value::Table(table) if !table.is_empty() => collect(table, &path, into),
                _ => {
                    into.insert(path);
                }
            }
        }
    }
    let mut found = BTreeSet::new();
    collect(table, "", &mut found);
    found
}

/// Puts a table over another: tables are merged key by key, everything else is replaced.
fn merge(under: &mut Table, over: Table) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(Value::Table(under)), Value::Table(over)) => merge(under, over),
            (_, value) => {
                under.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn files(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        dir
    }

    fn merged(dir: &tempfile::TempDir, names: &[&str]) -> Result<Table, String> {
        let names: Vec<_> = names.iter().map(|name| dir.path().join(name).display().to_string()).collect();
        Layers::of(&names).map(Layers::merged).map_err(|error| error.to_string())
    }

    #[test]
    fn a_recipe_comes_over_what_it_builds_on_and_later_recipes_come_over_it() {
        let dir = files(&[
            ("a.toml", "[run]\nseed = 1\nsteps = 1\n[sampling]\ngroup_size = 2"),
            ("b.toml", "base = \"a.toml\"\n[run]\nsteps = 2"),
            ("c.toml", "[run]\nname = \"c\""),
        ]);
        let found = merged(&dir, &["b.toml", "c.toml"]).unwrap();
        let wanted = "[run]\nseed = 1\nsteps = 2\nname = \"c\"\n[sampling]\ngroup_size = 2";
        assert_eq!(found, wanted.parse().unwrap());
    }

    #[test]
    fn a_base_that_is_reached_twice_undoes_nothing() {
        let dir = files(&[
            ("a.toml", "[run]\nsteps = 1\nseed = 1"),
            ("b.toml", "base = \"a.toml\"\n[run]\nsteps = 2"),
            ("c.toml", "base = \"a.toml\"\n[run]\nseed = 3"),
            ("d.toml", "base = [\"b.toml\", \"c.toml\"]"),
        ]);
        let wanted: Table = "[run]\nsteps = 2\nseed = 3".parse().unwrap();
        assert_eq!(merged(&dir, &["b.toml", "c.toml"]).unwrap(), wanted);
        assert_eq!(merged(&dir, &["d.toml"]).unwrap(), wanted);
    }

    #[test]
    fn a_file_may_build_on_recipes_that_come_with_the_program() {
        let dir = files(&[(
            "a.toml",
            "base = [\"dapo\", \"verl-exact\", \"verl-token-mean\"]\n[learner.objective]\ndual_clip = 3.0",
        )]);
        let found = merged(&dir, &["a.toml"]).unwrap();
        let objective = &found["learner"]["objective"];
        assert_eq!(objective["dual_clip"].as_float(), Some(3.0));
        assert_eq!(objective["aggregation"].as_str(), Some("batch-token"));
        assert_eq!(objective["clip_high"].as_float(), Some(0.28));
    }

    #[test]
    fn a_recipe_that_is_overridden_key_by_key_is_said_to_have_no_effect() {
        let dir = files(&[
            ("a.toml", "[run]\nsteps = 1\n[sampling]\ngroup_size = 2"),
            ("all.toml", "[run]\nsteps = 2\nseed = 1\n[sampling]\ngroup_size = 3"),
            ("part.toml", "[run]\nsteps = 2"),
        ]);
        let without_effect = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| dir.path().join(name).display().to_string()).collect();
            Layers::of(&names).unwrap().without_effect()
        };
        let found = without_effect(&["a.toml", "all.toml"]);
        assert!(
            found[0].contains("a.toml has no effect: ") && found[0].contains("all.toml sets every key"),
            "{found:?}"
        );
        assert!(
            without_effect(&["a.toml", "part.toml"]).is_empty() && without_effect(&["all.toml", "a.toml"]).is_empty()
        );
    }

    #[test]
    fn what_is_no_recipe_is_named_with_where_it_was_written() {
        let dir = files(&[
            ("a.toml", "base = \"b.toml\""),
            ("b.toml", "base = \"./a.toml\""),
            ("c.toml", "base = \"dappo\""),
            ("d.toml", "base = 3"),
            ("e.toml", "base = \"none.toml\""),
        ]);
        for (name, words) in [
            ("a.toml", &["`base` is", "./a.toml in", "b.toml, allowed: a recipe that does not build on this one"][..]),
            ("c.toml", &["`base` is \"dappo\" in", "c.toml, allowed: dapo is the nearest recipe", "config --list"]),
            ("d.toml", &["`base` is 3 in", "a list of names"]),
            ("e.toml", &["cannot read settings from", "none.toml"]),
        ] {
            let error = merged(&dir, &[name]).unwrap_err();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }

    #[test]
    fn a_file_with_a_near_name_and_a_setting_in_the_place_of_a_recipe_are_recognised() {
        let dir = files(&[("recipe.toml", ""), ("other.toml", "")]);
        for name in ["recipe.tml", "recpie.toml", "recipe"] {
            let error = merged(&dir, &[name]).unwrap_err();
            assert!(error.ends_with("recipe.toml is the nearest file"), "{name}: {error}");
        }
        let error = Layers::of(&["sampling.group_size=8"]).unwrap_err().to_string();
        assert!(error.ends_with("a setting is written as --set 'sampling.group_size=8'"), "{error}");
    }

    #[test]
    fn a_text_from_elsewhere_reaches_no_files() {
        let dir = files(&[("a.toml", "")]);
        let text = format!("base = {:?}", dir.path().join("a.toml").display().to_string());
        let error = Layers::of_text("toml", &text).unwrap_err().to_string();
        assert!(error.contains("a.toml\" in toml, allowed: one of arithmetic"), "{error}");
        assert!(Layers::of_text("toml", "base = \"dapo\"").is_ok());
    }
}
