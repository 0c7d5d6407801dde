//! What a recipe has this machine run, besides this program: said before it is started, also by a dry run. A recipe of
//! somebody else is code.

use std::collections::BTreeSet;
use std::path::Path;

use evenkeel_child::ChildLimits;
use evenkeel_proto::shown::one_line;
use evenkeel_recipe::Recipe;

use crate::terminal::note;

/// Longest command that is shown, in characters.
const MAX_SHOWN: usize = 400;

/// A program that a recipe starts.
struct Program<'a> {
    command: String,
    /// The setting that names it.
    field: String,
    keep_variables: &'a [String],
}

/// Says what a run of a recipe starts, and which variables of the environment are kept from it.
pub(crate) fn announce(recipe: &Recipe) {
    say(verifiers(recipe).chain(environments(recipe)).collect());
}

/// Says it for an evaluation, which starts no verifiers of `data`.
pub(crate) fn announce_evaluation(recipe: &Recipe) {
    let functions = recipe.reward.functions.iter().map(|(name, functions)| Program {
        command: in_python(&functions.python, &functions.path),
        field: format!("reward.functions.{name}.path"),
        keep_variables: &functions.keep_variables,
    });
    say(functions.chain(environments(recipe)).collect());
}

fn say(programs: Vec<Program<'_>>) {
    for Program { command, field, .. } in &programs {
        note(&one_line(&format!("runs with your rights: {command} ({field})"), MAX_SHOWN));
    }
    let withheld = |program: &Program<'_>| {
        let keep_variables = program.keep_variables.to_vec();
        ChildLimits { keep_variables, ..ChildLimits::default() }.withheld()
    };
    let names: BTreeSet<_> = programs.iter().flat_map(withheld).map(|name| name.display().to_string()).collect();
    if !names.is_empty() {
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        note(&one_line(&format!("withheld from them, unless keep_variables names it: {names}"), MAX_SHOWN));
    }
}

fn verifiers(recipe: &Recipe) -> impl Iterator<Item = Program<'_>> {
    let started = recipe.data.verifiers.iter().filter(|(_, verifier)| verifier.is_started());
    started.map(|(name, verifier)| Program {
        command: match &verifier.path {
            Some(path) => in_python(&verifier.python, path),
            None => verifier.command.join(" "),
        },
        field: format!("data.verifiers.{name}.{}", verifier.place()),
        keep_variables: &verifier.keep_variables,
    })
}

fn environments(recipe: &Recipe) -> Vec<Program<'_>> {
    let named = || recipe.data.environment.iter().chain(&recipe.data.environments);
    if named().next().is_none() {
        return Vec::new();
    }
    let python = &recipe.environment.python;
    let settings = recipe.environment.clone().with(named());
    let files = settings.files.iter().map(|file| (in_python(python, file), "files"));
    let agents = settings.agents.iter().map(|agent| {
        let is_python = agent.extension().is_some_and(|extension| extension == "py");
        let command = if is_python { in_python(python, agent) } else { agent.display().to_string() };
        (format!("{command}, for each episode"), "agents")
    });
    let taskset = |name: &String| (format!("{}, the taskset {name} of verifiers", python.display()), "verifiers");
    let all = files.chain(agents).chain(settings.verifiers.keys().map(taskset));
    let program = |(command, field)| Program {
        command,
        field: environment_setting(recipe, field),
        keep_variables: &recipe.environment.keep_variables,
    };
    all.map(program).collect()
}

/// The setting in which a recipe has what is in a list of the environment service.
pub(crate) fn environment_setting(recipe: &Recipe, list: &str) -> String {
    let own = &recipe.environment;
    let is_named_elsewhere = match list {
        "files" => own.files.is_empty(),
        "agents" => own.agents.is_empty(),
        "openenv" => own.openenv.is_empty(),
        _ => false,
    };
    match &recipe.data.environment {
        _ if !is_named_elsewhere => format!("environment.{list}"),
        Some(_) => "data.environment".to_owned(),
        None => "data.environments".to_owned(),
    }
}

fn in_python(python: &Path, file: &Path) -> String {
    format!("{} {}", python.display(), file.display())
}

#[cfg(test)]
mod tests {
    use evenkeel_config::Loader;

    use super::*;

    #[test]
    fn every_program_of_a_recipe_is_named_with_its_setting() {
        let text = "[data]\nenvironments = [\"shop.py\", \"agent:solve.py\", \"agent:./solve\", \"verifiers:gsm8k\", \
                    \"calculator\"]\n[data.verifiers.words]\npath = \"reward.py\"\npython = \".venv/bin/python\"\n\
                    [data.verifiers.judge]\ncommand = [\"sh\", \"-c\", \"judge\"]\n[data.verifiers.other]\n\
                    endpoints = [\"http://a:1\"]\n";
        let recipe: Recipe = Loader::new().text("test", text).unwrap().load().unwrap().settings;
        let programs = verifiers(&recipe).chain(environments(&recipe));
        let said: Vec<_> = programs.map(|one| format!("{} ({})", one.command, one.field)).collect();
        assert_eq!(
            said,
            [
                "sh -c judge (data.verifiers.judge.command)",
                ".venv/bin/python reward.py (data.verifiers.words.path)",
                "python3 shop.py (data.environments)",
                "./solve, for each episode (data.environments)",
                "python3 solve.py, for each episode (data.environments)",
                "python3, the taskset gsm8k of verifiers (environment.verifiers)",
            ]
        );
        let plain = Loader::new().text("test", "[data]\nenvironment = \"calculator\"").unwrap();
        assert!(environments(&plain.load::<Recipe>().unwrap().settings).is_empty());
    }
}
