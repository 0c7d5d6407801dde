//! What a run writes of its settings and its inputs: a new one before it starts, a resumed one once it is known to go
//! on.

use evenkeel_data::DataReport;
use evenkeel_run::{
    AcceptedChanges, CONFIG_FILE, DATA_FILE, INPUTS_FILE, Input, InputRecord, RunDirectory, RunFilesError,
};

use crate::recipe::ResolvedRecipe;
use crate::run::receipt::ReceiptBasis;

/// The files, before they are written. A resume that is refused changes none of them.
pub(super) struct StartFiles {
    /// Settings of a resumed run, which may differ; a new run has them already.
    config: Option<String>,
    data: DataReport,
    record: InputRecord,
}

impl StartFiles {
    pub(super) fn of_new_run(recipe: &ResolvedRecipe, data: &DataReport, found: Vec<Input>) -> Self {
        Self { config: None, data: data.clone(), record: InputRecord::new(recipe.rules.clone(), found) }
    }

    pub(super) fn of_resumed_run(
        recipe: &ResolvedRecipe,
        data: &DataReport,
        found: Vec<Input>,
        begun_with: &InputRecord,
    ) -> Self {
        let record = InputRecord::new(begun_with.settings.clone(), found).with_accepted(begun_with.accepted.clone());
        Self { config: Some(recipe.toml.clone()), data: data.clone(), record }
    }

    pub(super) fn inputs(&self) -> &[Input] {
        &self.record.inputs
    }

    /// What the steps of the run have in common.
    pub(super) fn basis(&self) -> ReceiptBasis {
        ReceiptBasis::of(&self.record)
    }

    /// Notes changes that were accepted after that many GRPO steps.
    pub(super) fn accept(&mut self, step: u64, changes: Vec<String>) {
        if !changes.is_empty() {
            self.record.accepted.push(AcceptedChanges { step, changes });
        }
    }

    pub(super) fn write(&self, directory: &RunDirectory) -> Result<(), RunFilesError> {
        if let Some(config) = &self.config {
            directory.replace(CONFIG_FILE, config)?;
        }
        directory.replace_json(DATA_FILE, &self.data)?;
        directory.replace_json(INPUTS_FILE, &self.record)
    }
}
