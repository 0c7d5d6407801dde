//! What is refused before the service starts.

use evenkeel_config::ByteSize;
use evenkeel_learner::{ServiceSettings, bind};

#[tokio::test]
async fn a_folder_without_a_model_is_refused_before_the_service_starts() {
    let folder = tempfile::tempdir().unwrap();
    let settings = ServiceSettings { model: folder.path().to_owned(), ..ServiceSettings::default() };
    let error = bind(settings).await.err().unwrap().to_string();
    assert!(error.contains("config.json"), "{error}");
    let error = bind(ServiceSettings::default()).await.err().unwrap().to_string();
    assert!(error.contains("model is empty"), "{error}");
    let small = ServiceSettings { model: "model".into(), max_memory: ByteSize::b(1), ..ServiceSettings::default() };
    let error = bind(small).await.err().unwrap().to_string();
    assert!(error.contains("max_memory is 1B") && error.contains("server.max_message"), "{error}");
}
