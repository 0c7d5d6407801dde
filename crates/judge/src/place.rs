//! Where verdicts are recorded.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::path::Path;

use evenkeel_proto::FieldError;

use crate::error::JudgeError;
use crate::record::{RECORD_FILE, Record};
use crate::settings::JudgeSettings;

/// Where verdicts are recorded unless `records` of the settings says so.
#[derive(Debug, Clone, Copy)]
pub enum DefaultRecord<'a> {
    /// In this folder, such as a run directory.
    In(&'a Path),
    /// Nowhere: `records` is required.
    Required,
    /// Nowhere, whatever the settings say: every question is asked anew.
    Never,
}

/// Opens the record of the settings.
pub(crate) fn open(settings: &JudgeSettings, place: DefaultRecord<'_>) -> Result<Record, JudgeError> {
    let folder = match (place, &settings.records) {
        (DefaultRecord::Never, _) => return Ok(Record::none()),
        (_, Some(folder)) => folder,
        (DefaultRecord::In(folder), None) => folder,
        (DefaultRecord::Required, None) => {
            return Err(FieldError::missing("records", "a folder in which verdicts are recorded").into());
        }
    };
    let path = folder.join(RECORD_FILE);
    let opened = || -> io::Result<Record> {
        if !settings.record_only {
            std::fs::create_dir_all(folder)?;
        }
        Record::open(&path, !settings.record_only)
    };
    opened().map_err(|source| JudgeError::Record { path: path.clone(), source })
}

impl JudgeSettings {
    /// Checks that the record in `records`, where that is set, can be read, and written unless `record_only` is set.
    /// Creates nothing.
    ///
    /// # Errors
    /// A file or folder that cannot be used, or a line that is none of a record.
    pub fn check_record(&self) -> Result<(), JudgeError> {
        let Some(folder) = &self.records else { return Ok(()) };
        let path = folder.join(RECORD_FILE);
        let failed = |source| JudgeError::Record { path: path.clone(), source };
        Record::open(&path, false).map_err(failed)?;
        if self.record_only {
            return Ok(());
        }
        evenkeel_host::check_writable(folder).map_err(|(path, source)| JudgeError::Record { path, source })?;
        match OpenOptions::new().append(true).open(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(error)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_checked_before_a_run_and_nothing_is_created() {
        let dir = tempfile::tempdir().unwrap();
        let recording_in =
            |folder: &Path| JudgeSettings { records: Some(folder.to_owned()), ..JudgeSettings::default() };
        JudgeSettings::default().check_record().unwrap();
        let new = dir.path().join("new");
        recording_in(&new).check_record().unwrap();
        assert!(!new.exists());
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = recording_in(&file).check_record().unwrap_err().to_string();
        assert!(error.contains("file"), "{error}");
        let record = dir.path().join(RECORD_FILE);
        std::fs::write(&record, "words\n").unwrap();
        for record_only in [false, true] {
            let error =
                JudgeSettings { record_only, ..recording_in(dir.path()) }.check_record().unwrap_err().to_string();
            assert!(error.contains("the line at byte 0 of "), "{error}");
        }
        std::fs::remove_file(&record).unwrap();
        std::fs::create_dir(&record).unwrap();
        assert!(recording_in(dir.path()).check_record().is_err(), "a folder is no record");
    }
}
