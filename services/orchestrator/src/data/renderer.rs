//! From what a row asks to what the model sees.

use std::sync::Arc;

use evenkeel_chat::{ChatTemplate, PromptError, PromptRenderer, PromptSettings, RenderedPrompt};
use evenkeel_data::Problem;
use evenkeel_environment::Descriptions;
use evenkeel_model_folder::{ConfigFile, Folder};

use super::turns::{Asked, EpisodeText, EpisodeTexts};
use crate::error::RunError;
use crate::settings::{ControlTextInRows, DataSettings, HINT, LoopSettings};
use crate::text::Tokenizer;

impl DataSettings {
    /// The renderer of prompts with the chat template and the tokenizer of a folder, which needs no model.
    ///
    /// # Errors
    /// A file that is missing or broken, an invalid template; a system prompt or an argument that the template cannot
    /// take.
    pub fn prompt_renderer(&self, folder: &Folder) -> Result<PromptRenderer, RunError> {
        let tokenizer = evenkeel_model_folder::Tokenizer::require(folder)?;
        self.renderer_with(folder, Arc::new(tokenizer))
    }

    fn renderer_with(
        &self,
        folder: &Folder,
        tokenizer: Arc<evenkeel_model_folder::Tokenizer>,
    ) -> Result<PromptRenderer, RunError> {
        let template = ChatTemplate::read(folder)?.map(Arc::new);
        let settings = PromptSettings {
            system_prompt: self.system_prompt.clone(),
            suffix: self.suffix.clone(),
            template_arguments: self.template_arguments.clone().into_iter().collect(),
            raw: self.raw,
            refuses_control_text: self.control_text == ControlTextInRows::Refuse,
        };
        Ok(PromptRenderer::new(template, tokenizer, settings).map_err(|error| error.within("data"))?)
    }
}

impl LoopSettings {
    /// What the prompts of a run are encoded with: the tokenizer and the chat template of a folder, which needs no
    /// model, and what environments add to them.
    ///
    /// # Errors
    /// As [`DataSettings::prompt_renderer`]; a chat template that does not go with the turns of an environment.
    pub fn prompt_encoder(&self, folder: &Folder, described: &Descriptions) -> Result<Encoder, RunError> {
        Encoder::new(folder, Tokenizer::of(folder, &ConfigFile::read(folder)?)?, self, described)
    }
}

/// What turns the problems of a run into tokens: prompts by the chat template, answers to imitate as they are.
#[derive(Debug, Clone)]
pub struct Encoder {
    pub(crate) prompts: PromptRenderer,
    pub(crate) tokenizer: Tokenizer,
    /// Texts of the environments that tasks may be done in.
    pub(crate) episodes: EpisodeTexts,
    /// `data.hint`.
    hint: Option<String>,
}

impl Encoder {
    /// # Errors
    /// As [`DataSettings::prompt_renderer`]; a chat template that does not go with the turns of an environment.
    pub(crate) fn new(
        folder: &Folder,
        tokenizer: Tokenizer,
        settings: &LoopSettings,
        described: &Descriptions,
    ) -> Result<Self, RunError> {
        let prompts = settings.data.renderer_with(folder, tokenizer.shared())?;
        let episodes = EpisodeText::all(&prompts, &tokenizer, settings, described)?;
        Ok(Self { prompts, tokenizer, episodes, hint: settings.data.hint.clone() })
    }

    /// Renders what a problem asks: with the tools of its environment, where it has one.
    ///
    /// # Errors
    /// Messages that no template renders.
    pub(crate) fn render(&self, problem: &Problem) -> Result<RenderedPrompt, PromptError> {
        let (prompt, suffix) = problem.asked();
        self.renderer_of(problem).render_with(prompt, suffix)
    }

    /// Renders what the model reads of a problem as its own teacher; `None` without a hint.
    ///
    /// # Errors
    /// Messages that no template renders.
    pub fn render_hinted(&self, problem: &Problem) -> Result<Option<RenderedPrompt>, PromptError> {
        let Some(hint) = hint_of(self.hint.as_deref(), problem) else { return Ok(None) };
        let (prompt, suffix) = problem.asked();
        self.renderer_of(problem).render_hinted(prompt, suffix, &hint).map(Some)
    }

    /// Renders many problems, in their order.
    pub fn render_all(&self, problems: &[Problem]) -> Vec<Result<RenderedPrompt, PromptError>> {
        // All threads take part where one renderer has all of them.
        let mut rendered = Vec::with_capacity(problems.len());
        for alike in problems.chunk_by(|a, b| environment(a) == environment(b)) {
            let asked: Vec<_> = alike.iter().map(Problem::asked).collect();
            rendered.extend(self.renderer_of(&alike[0]).render_all(&asked));
        }
        rendered
    }

    /// What a problem asks, where its environment may add to the prompt.
    pub(super) fn asked(&self, problem: &Problem) -> Option<Arc<Asked>> {
        let text = self.episodes.get(environment(problem)?)?;
        let (prompt, suffix) = problem.asked();
        (!text.is_agent()).then(|| Arc::new(Asked { prompt: prompt.clone(), suffix: suffix.map(str::to_owned) }))
    }

    /// What renders prompts without an environment.
    pub fn plain(&self) -> &PromptRenderer {
        &self.prompts
    }

    fn renderer_of(&self, problem: &Problem) -> &PromptRenderer {
        let of_environment = environment(problem).and_then(|name| self.episodes.get(name));
        of_environment.map_or(&self.prompts, |episodes| episodes.prompts())
    }
}

/// The text of a row's hint, with `data.hint`; `None` without one.
pub fn hint_of(template: Option<&str>, problem: &Problem) -> Option<String> {
    Some(template?.replace(HINT, problem.hint.as_deref()?))
}

fn environment(problem: &Problem) -> Option<&str> {
    problem.environment.as_ref().map(|task| &*task.environment)
}
