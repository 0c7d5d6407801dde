//! `report.html`: what a run has done, as one self-contained page. The live page is made of the same sections.

mod benchmarks;
mod charts;
mod completion;
mod data_sources;
mod dropped;
mod earlier;
mod lag;
mod legend;
mod overview;
mod probe;
mod proof;
mod rule_profiles;
mod rules;
mod said;
mod sampler_audit;
mod samples;
mod settings;
mod steps;
mod time;
mod training_groups;
mod training_samples;

use std::path::Path;

use evenkeel_charts::{Html, Page, Section, figures};
use evenkeel_data::DataReport;
use evenkeel_proto::v1::StepKind;
use evenkeel_run::{
    CONFIG_FILE, Curves, EVALUATION_FILE, METRICS_FILE, MetricsLine, RunFilesError, Summary, WARM_START_FILE,
    WrittenLines, read_data, read_lines,
};

use crate::stored::stored_summary;

pub(crate) use charts::{capitalized, with_unit};
pub use earlier::EarlierRun;
pub use samples::{Gallery, GalleryCache};
pub use training_samples::{TrainingCache, TrainingSamples};

/// All that a report is made of.
#[derive(Debug, Clone, Copy)]
pub struct RunData<'a> {
    pub summary: &'a Summary,
    /// Text of the run's `config.toml`.
    pub config: &'a str,
    /// The lines of GRPO steps.
    pub steps: &'a Curves,
    /// The lines of supervised steps.
    pub warm_start: &'a Curves,
    /// The lines of evaluations.
    pub evaluations: &'a [MetricsLine],
    /// Report on the rows of the data.
    pub data: Option<&'a DataReport>,
    /// The answers that are worth reading.
    pub gallery: &'a Gallery,
    /// Samples of training steps, where they are kept.
    pub training: &'a TrainingSamples,
    /// A run to compare it with at a glance, where a reader asks for one.
    pub earlier: Option<&'a EarlierRun>,
}

/// The page of a run.
pub fn page(data: &RunData<'_>) -> Page {
    let summary = data.summary;
    let versions = summary.versions.iter().map(|(name, version)| format!("{name} {version}"));
    let versions = versions.collect::<Vec<_>>().join(" · ");
    Page {
        title: summary.run_id.clone(),
        kicker: Html::text("Evenkeel · training run"),
        sections: sections(data),
        footer: Html::text(format_args!("Seed {}. {versions}", summary.seed)),
    }
}

/// The sections of the page: results, training, answers, what the aggregation did, what was lost, time, settings.
fn sections(data: &RunData<'_>) -> Vec<Section> {
    let RunData { summary, steps, warm_start, evaluations, earlier, .. } = *data;
    let curves = if steps.is_empty() && warm_start.is_empty() && evaluations.is_empty() {
        Html::paragraph("No step is done yet.")
    } else {
        figures(charts::results(steps, evaluations, earlier))
    };
    vec![
        Section::new("overview", "", overview::overview(summary)),
        Section::new(
            "results",
            "Results",
            curves.with(benchmarks::table(summary, evaluations)).with(data_sources::table(evaluations)),
        ),
        Section::new(
            "training",
            "Training",
            training(steps, warm_start, earlier).with(lag::section(steps)).with(completion::section(steps)),
        ),
        Section::new("samples", "Answers", answers(data)),
        Section::new("aggregation", "Aggregation", rules::section(summary, steps)),
        Section::new(
            "weights",
            "Engine weights and samples",
            proof::section(summary, steps).with(sampler_audit::section(steps)),
        ),
        Section::new(
            "dropped",
            "Left out, invalid, or without effect",
            dropped::section(steps, evaluations, data.data),
        ),
        Section::new("time", "Time", time::section(summary, steps)),
        Section::new("steps", "Steps", steps::table(steps)),
        Section::new("settings", "Settings", settings::section(summary, data.config)),
    ]
}

/// Groups of training, then the answers of the last evaluation that are worth reading.
fn answers(data: &RunData<'_>) -> Html {
    training_groups::section(data.training).with(data.gallery.to_html())
}

fn training(steps: &Curves, warm_start: &Curves, earlier: Option<&EarlierRun>) -> Html {
    let mut all = if steps.is_empty() { Vec::new() } else { charts::training(steps, earlier) };
    if !warm_start.is_empty() {
        all.push(charts::warm_start(warm_start));
    }
    figures(all)
}

/// The report of a run directory, from its files, whether the run is active or not. The curves of the run in `earlier`
/// lie under its own.
///
/// # Errors
/// A directory without a run; files that cannot be read.
pub fn render(directory: &Path, earlier: Option<&Path>) -> Result<String, RunFilesError> {
    let earlier = earlier.map(EarlierRun::read).transpose()?;
    let config = std::fs::read_to_string(directory.join(CONFIG_FILE)).unwrap_or_default();
    let lines = |name, kind| read_lines(&directory.join(name), kind);
    let steps = Curves::of(&lines(METRICS_FILE, StepKind::Train)?);
    let warm_start = Curves::of(&lines(WARM_START_FILE, StepKind::WarmStart)?);
    let evaluations = lines(EVALUATION_FILE, StepKind::Evaluation)?;
    let written = WrittenLines { steps: &steps, warm_start: &warm_start, evaluations: &evaluations };
    let summary = stored_summary(directory, &config, None, &written)?;
    let data = read_data(directory);
    let gallery = Gallery::read(directory, &evaluations);
    let training = TrainingCache::default().get(directory);
    let data = RunData {
        summary: &summary,
        config: &config,
        steps: &steps,
        warm_start: &warm_start,
        evaluations: &evaluations,
        data: data.as_ref(),
        gallery: &gallery,
        training: &training,
        earlier: earlier.as_ref(),
    };
    Ok(page(&data).to_document())
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::RunState;
    use evenkeel_run::RunPlan;

    use super::*;

    pub(super) fn lines(count: u64, set: impl Fn(&mut MetricsLine)) -> Vec<MetricsLine> {
        let line = |step| {
            let mut line = MetricsLine::new(StepKind::Train, step, step);
            set(&mut line);
            line
        };
        (1..=count).map(line).collect()
    }

    pub(super) fn summary(steps: &Curves) -> Summary {
        let written = WrittenLines { steps, warm_start: &Curves::default(), evaluations: &[] };
        Summary::of("a<b", RunPlan::default(), Some("token"), RunState::Stopped, &written, &Default::default())
    }

    #[test]
    fn a_page_is_self_contained_and_escapes_its_input() {
        let config = "note = \"</pre><script>alert(1)</script>\"";
        for count in [0, 1, 25] {
            let steps =
                Curves::of(&lines(count, |line| line.set_named("critic/score/mean", (line.step - 1) as f64 / 25.0)));
            let data = RunData {
                summary: &summary(&steps),
                config,
                steps: &steps,
                warm_start: &Curves::default(),
                evaluations: &[],
                data: None,
                gallery: &Gallery::default(),
                training: &TrainingSamples::default(),
                earlier: None,
            };
            let html = page(&data).to_document();
            assert!(!html.contains("<script") && !html.contains("http:") && !html.contains("a<b"), "{count}");
            // One value alone is a sentence.
            assert_eq!(html.matches("<figure>").count(), usize::from(count > 1), "{count}: {html}");
        }
    }
}
