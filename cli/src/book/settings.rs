//! Blocks of settings: each is read as a recipe, a study, or the settings of a server, so that no key or value of a
//! page is unknown.

use evenkeel_config::{Loader, Settings};
use evenkeel_engine::EngineSettings;
use evenkeel_environment_service::EnvironmentSettings;
use evenkeel_generation::GenerationSettings;
use evenkeel_learner::LearnerSettings;
use evenkeel_orchestrator::OrchestratorSettings;
use evenkeel_recipe::Recipe;
use evenkeel_reward::RewardSettings;
use evenkeel_reward::gateway::GatewaySettings;
use evenkeel_weights_agent::WeightsAgentSettings;

use super::blocks::{PageBlock, blocks};
use super::pages::{self, Page};
use crate::arguments::Service;
use crate::tinker::TinkerService;

/// What a server reads: `--set` on top of a text. What is absent is no fault here: nobody starts anything.
pub(super) fn of_service(service: Service, text: &str, set: &[String]) -> Result<(), String> {
    fn load<T: Settings>(text: &str, set: &[String]) -> Result<(), String> {
        let loaded =
            Loader::new().text("the page", text).and_then(|loader| loader.set(set)).and_then(Loader::load::<T>);
        loaded.map(drop).map_err(|error| error.to_string())
    }
    // The only settings without a default.
    let model = ["model=model".to_owned()];
    let tinker = ["model=model".to_owned(), "tinker.model_name=name".to_owned()];
    let learner = ["learner=http://learner:50053".to_owned()];
    let set = match service {
        Service::Engine | Service::Learner => &[&model[..], set].concat(),
        Service::Tinker => &[&tinker[..], set].concat(),
        Service::Weights => &[&learner[..], set].concat(),
        _ => set,
    };
    match service {
        Service::Engine => load::<EngineSettings>(text, set),
        Service::Generation => load::<GenerationSettings>(text, set),
        Service::Reward => load::<RewardSettings>(text, set),
        Service::Learner => load::<LearnerSettings>(text, set),
        Service::Environment => load::<EnvironmentSettings>(text, set),
        Service::Orchestrator => load::<OrchestratorSettings>(text, set),
        Service::Gateway => load::<GatewaySettings>(text, set),
        Service::Tinker => load::<TinkerService>(text, set),
        Service::Weights => load::<WeightsAgentSettings>(text, set),
    }
}

/// Reads a block as what its mark says: a service, a `study`, the section of a recipe in which it stands, or a whole
/// recipe.
fn check(block: &PageBlock) -> Result<(), String> {
    let mark = block.marks.first().map_or("", String::as_str);
    let services = [
        Service::Engine,
        Service::Generation,
        Service::Reward,
        Service::Learner,
        Service::Environment,
        Service::Orchestrator,
        Service::Gateway,
        Service::Tinker,
        Service::Weights,
    ];
    if let Some(service) = services.into_iter().find(|service| mark == format!("serve-{}", service.name())) {
        return of_service(service, &block.text, &[]);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.toml");
    let text = match mark {
        "" | "study" => block.text.clone(),
        section => format!("[{section}]\n{}", block.text),
    };
    std::fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    if mark == "study" {
        return match evenkeel_comparison::Study::find(&path) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err("no study".to_owned()),
            Err(error) => Err(format!("{error:#}")),
        };
    }
    evenkeel_recipe::read::<Recipe>(&[path]).map(drop).map_err(|error| error.to_string())
}

/// What is wrong with the settings on these pages.
fn faults(pages: &[Page]) -> Vec<String> {
    let blocks = pages.iter().flat_map(blocks).filter(|block| block.language == "toml" && !block.is("untested"));
    blocks.filter_map(|block| check(&block).err().map(|why| format!("{}: {why}", block.place))).collect()
}

#[test]
fn every_block_of_settings_is_read() {
    let faults = faults(&pages::all());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn an_unknown_key_and_a_wrong_value_are_found() {
    let found = |text: &str| faults(&[Page::new("a.md", text)]);
    assert!(found("```toml\n[sampling]\ngroup_size = 4\n```\n").is_empty());
    for wrong in [
        "```toml\n[sampling]\ngroup_sise = 4\n```\n",
        "```toml\n[sampling]\ngroup_size = \"four\"\n```\n",
        "```toml sampling\ngroup_sise = 4\n```\n",
        "```toml serve-orchestrator\n[server]\ntoken_fil = \"a\"\n```\n",
        "```toml study\n[study]\nseed = 8\n```\n",
    ] {
        assert_eq!(found(wrong).len(), 1, "{wrong}");
    }
}
