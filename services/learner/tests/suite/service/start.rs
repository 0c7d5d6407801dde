//! What is refused before the service starts.

use evenkeel_config::ByteSize;
use evenkeel_learner::{LearnerSettings, bind};

#[tokio::test]
async fn a_folder_without_a_model_is_refused_before_the_service_starts() {
    let folder = tempfile::tempdir().unwrap();
    let settings = LearnerSettings { model: folder.path().to_owned(), ..LearnerSettings::default() };
    let error = bind(settings).await.err().unwrap().to_string();
    assert!(error.contains("config.json"), "{error}");
    let error = bind(LearnerSettings::default()).await.err().unwrap().to_string();
    assert!(error.contains("model is empty"), "{error}");
    let small = LearnerSettings { model: "model".into(), max_memory: ByteSize::b(1), ..LearnerSettings::default() };
    let error = bind(small).await.err().unwrap().to_string();
    assert!(error.contains("max_memory is 1B") && error.contains("server.max_message"), "{error}");
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_to_is_refused_before_the_model_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let [good, bad] = [dir.path().join("not/there/yet"), file.join("folder")];
    let settings =
        LearnerSettings { model: "model".into(), checkpoints: good, weights: bad, ..LearnerSettings::default() };
    let error = bind(settings).await.err().unwrap().to_string();
    assert!(error.contains("weights is ") && error.contains("a folder that can be written to"), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left behind");
}
