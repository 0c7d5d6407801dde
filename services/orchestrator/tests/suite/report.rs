//! The report of a longer run; it stays in the target directory to be looked at.

use std::path::Path;

use evenkeel_run::Summary;
use evenkeel_run_report::render_report;

use crate::support::{Cluster, bounded, recipe, temp};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_shows_every_curve_and_can_be_made_again() {
    bounded(async {
        let (_dir, path) = temp();
        let mut recipe = recipe();
        (recipe.run.name, recipe.run.steps) = ("arithmetic-balanced".into(), 40);
        (recipe.warm_start.steps, recipe.evaluation.every, recipe.evaluation.problems) = (25, 10, 50);
        let cluster = Cluster::start().await;
        cluster.generation.state.certain_from.store(70, std::sync::atomic::Ordering::Relaxed);
        cluster.run(&path, &recipe).await.1.unwrap();
        let html = std::fs::read_to_string(path.join("report.html")).unwrap();
        assert_eq!(html.matches("<figure").count(), 19);
        assert!(!html.contains("<script") && !html.contains("NaN") && !html.contains("src="));
        assert_eq!(render_report(&path, None).unwrap(), html);
        let summary: Summary =
            serde_json::from_str(&std::fs::read_to_string(path.join("summary.json")).unwrap()).unwrap();
        assert!(summary.reward_last_ten > summary.reward_first_ten && summary.tokens > 0, "{summary:?}");
        assert_eq!(summary.aggregation.as_deref(), Some("balanced"));
        std::fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join("report.html"), html).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_before_it_on_the_same_data_is_on_no_page_unless_somebody_asks_for_it() {
    bounded(async {
        let (_dir, path) = temp();
        let mut recipe = recipe();
        (recipe.run.name, recipe.run.steps, recipe.warm_start.steps) = ("the-longer-one".into(), 6, 0);
        let before = path.with_file_name("before");
        Cluster::start().await.run(&before, &recipe).await.1.unwrap();
        (recipe.run.name, recipe.run.steps) = ("the-shorter-one".into(), 3);
        Cluster::start().await.run(&path, &recipe).await.1.unwrap();
        let html = std::fs::read_to_string(path.join("report.html")).unwrap();
        assert!(!html.contains("the-longer-one"), "nobody asked for it");
        let with = render_report(&path, Some(&before)).unwrap();
        assert!(with.contains("run the-longer-one <b>"), "its curves are drawn");
        assert!(
            !with.contains("at all 6 points") && !with.contains("at all 5 points"),
            "sentences are of the run alone"
        );
        let error = render_report(&path, Some(&path.with_file_name("none"))).unwrap_err().to_string();
        assert!(error.contains("holds no run"), "{error}");
    })
    .await;
}
