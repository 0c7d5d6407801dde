//! The receipt of a run, and the chain that continues where a run returns to a checkpoint.

use std::path::Path;

use evenkeel_orchestrator::{KeptRollouts, StepOrder};
use evenkeel_run::{Heads, LineKind, check_receipt, read_receipt};

use crate::support::{Cluster, LEARNER, bounded, kill_until_it_comes_through, recipe, temp};

/// The heads of the last step, which a run prints.
fn heads(path: &Path) -> Heads {
    let lines = read_receipt(path).unwrap();
    lines.iter().rfind(|line| line.kind == LineKind::Step).unwrap().heads.clone()
}

fn assert_equal_to_its_files(path: &Path) {
    let check = check_receipt(path).unwrap().expect("there is a receipt");
    assert_eq!(check.differences, [], "{:?}", check.notes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_has_a_line_for_each_step_and_its_summary_has_the_head() {
    bounded(async {
        let (_dir, path) = temp();
        let (_, result) = Cluster::start().await.run(&path, &recipe()).await;
        let summary = result.unwrap().1;
        assert_eq!(summary.receipt, Some(heads(&path)));
        assert_equal_to_its_files(&path);
        let lines = read_receipt(&path).unwrap();
        let of_kind = |kind| lines.iter().filter(|line| line.kind == kind).map(|line| line.step).collect::<Vec<_>>();
        assert_eq!(of_kind(LineKind::Step), (1..=6).collect::<Vec<_>>());
        assert_eq!((of_kind(LineKind::Start), of_kind(LineKind::End)), (vec![0], vec![6]));
        let versions: Vec<u64> = lines.iter().filter_map(|line| Some(line.determined.as_ref()?.version)).collect();
        assert!(versions.windows(2).all(|pair| pair[1] == pair[0] + 1), "{versions:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_and_a_lost_learner_leave_the_determined_head_and_files_that_match() {
    bounded(async {
        let (_whole_dir, whole) = temp();
        Cluster::start().await.run(&whole, &recipe()).await.1.unwrap();
        for (seed, with_learner) in [(0, false), (20, true)] {
            let (_dir, path) = temp();
            let mut cluster = Cluster::start().await;
            kill_until_it_comes_through(&mut cluster, &path, &recipe(), with_learner, seed).await;
            assert_eq!(heads(&path).determined, heads(&whole).determined);
            assert_equal_to_its_files(&path);
        }
        let (_dir, path) = temp();
        let mut cluster = Cluster::start().await;
        cluster.run_with_losses(&path, &recipe(), &[(3, LEARNER)]).await;
        assert_eq!(heads(&path).determined, heads(&whole).determined);
        assert_equal_to_its_files(&path);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_kept_of_samples_changes_no_determined_head() {
    bounded(async {
        let (_whole_dir, whole) = temp();
        Cluster::start().await.run(&whole, &recipe()).await.1.unwrap();
        for (rollouts, tokens) in
            [(KeptRollouts::All, false), (KeptRollouts::Groups(1), true), (KeptRollouts::Off, true)]
        {
            let (_dir, path) = temp();
            let mut recipe = recipe();
            (recipe.run.rollouts, recipe.run.rollout_tokens) = (rollouts, tokens);
            Cluster::start().await.run(&path, &recipe).await.1.unwrap();
            assert_eq!(heads(&path).determined, heads(&whole).determined, "{rollouts:?}");
            assert_equal_to_its_files(&path);
            let check = check_receipt(&path).unwrap().unwrap();
            assert!(check.notes.iter().any(|note| note.starts_with("samples")), "{:?}", check.notes);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_order_of_completion_the_files_still_match_the_receipt() {
    bounded(async {
        let (_dir, path) = temp();
        let mut recipe = recipe();
        recipe.pipeline.max_lag = 1;
        recipe.pipeline.order = StepOrder::Completion;
        Cluster::start().await.run(&path, &recipe).await.1.unwrap();
        assert_equal_to_its_files(&path);
    })
    .await;
}
