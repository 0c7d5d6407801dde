//! A training step in its trace: which prompts each gradient was computed from.

use std::time::{Duration, SystemTime};

use evenkeel_proto::v1::{TrainHeader, TrainReport};
use evenkeel_telemetry::{Span, TraceContext, record_span, spans_are_wanted};

use crate::timeline::Pass;

/// Records the spans of a step that ends now. `groups` are the ids of its groups, in the order in which they were
/// trained on.
pub(super) fn record_spans(
    header: &TrainHeader,
    report: &TrainReport,
    groups: &[String],
    passes: &[Pass],
    total: Duration,
) {
    if spans_are_wanted() {
        spans(header, report, groups, passes, total, SystemTime::now()).into_iter().for_each(record_span);
    }
}

/// The step, followed by its passes as children. Each pass links to the prompts whose samples it ran: their traces
/// follow from the run and the ids of the groups.
fn spans(
    header: &TrainHeader,
    report: &TrainReport,
    groups: &[String],
    passes: &[Pass],
    total: Duration,
    ended: SystemTime,
) -> Vec<Span> {
    let parent: Option<TraceContext> = header.traceparent.parse().ok();
    let context = parent.map_or_else(TraceContext::root, TraceContext::child);
    let failure = report.skipped.then(|| format!("an update was skipped: {}", report.skip_reason));
    let step = Span::new("train", context, ended - total, ended)
        .within(parent)
        .with("run", header.run_id.clone())
        .with("step", header.step as i64)
        .with("kind", header.kind().as_str_name())
        .with("policy_version", report.version as i64)
        .with("trainable_tokens", report.trainable_tokens as i64)
        .failed(failure);
    let pass = |pass: &Pass| {
        let prompts = pass.groups.iter().filter_map(|&group| groups.get(group));
        Span::new(pass.kind.label(), context.child(), pass.began, pass.ended)
            .within(context)
            .with("micro_batches", pass.micro_batches as i64)
            .linked(prompts.map(|id| TraceContext::for_id(&header.run_id, id)))
    };
    std::iter::once(step).chain(passes.iter().map(pass)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::PassKind;

    #[test]
    fn a_gradient_links_to_the_prompts_whose_samples_it_ran() {
        let parent = TraceContext::for_id("first", "step/3");
        let header =
            TrainHeader { run_id: "first".into(), step: 3, traceparent: parent.to_string(), ..TrainHeader::default() };
        let ended = SystemTime::now();
        let pass = |kind, groups| Pass {
            kind,
            began: ended - Duration::from_secs(2),
            ended: ended - Duration::from_secs(1),
            micro_batches: 2,
            groups,
        };
        let passes = [pass(PassKind::Gradient, vec![0, 2]), pass(PassKind::Update, vec![])];
        let groups = ["train/3/7", "train/3/8", "train/3/9"].map(str::to_owned);
        let total = Duration::from_secs(3);
        let found = spans(&header, &TrainReport::default(), &groups, &passes, total, ended);
        let names: Vec<_> = found.iter().map(|span| &*span.name).collect();
        assert_eq!(names, ["train", "gradient", "update"]);
        assert_eq!((found[0].parent, found[0].began), (Some(parent), ended - total));
        assert_eq!(found[1].parent, Some(found[0].context));
        let prompts = ["train/3/7", "train/3/9"].map(|id| TraceContext::for_id("first", id));
        assert_eq!(found[1].links, prompts);
        assert!(found[2].links.is_empty());
    }
}
