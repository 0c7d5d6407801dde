//! Modules of Python that are run from wherever this program was started.

/// Arguments with which Python runs a module as `-m` does, but not one of the working directory: in a folder of somebody
/// else there may be a `pip.py`.
pub fn python_module(name: &str) -> [String; 2] {
    let program = format!(
        "import sys\nif sys.path[:1] == ['']: del sys.path[0]\nimport runpy\n\
         runpy.run_module('{name}', run_name='__main__', alter_sys=True)"
    );
    ["-c".to_owned(), program]
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_module_that_was_planted_in_the_working_directory_is_not_run() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["venv", "runpy", "argparse"] {
            std::fs::write(folder.path().join(format!("{name}.py")), "print('planted')").unwrap();
        }
        let run = |arguments: &[&str]| {
            let output = Command::new("python3").args(arguments).arg("--help").current_dir(folder.path()).output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        assert!(run(&["-m", "venv"]).contains("planted"), "as `-m` does");
        let said = run(&python_module("venv").each_ref().map(String::as_str));
        assert!(said.contains("usage") && !said.contains("planted"), "{said}");
    }
}
