//! Section `page`.

use evenkeel_proto::FieldError;

use super::section::section;

/// The value that turns the page off.
const OFF: &str = "off";

section! {
    /// Section `page`: the page in which a run is watched with a browser.
    pub struct PageSettings {
        /// Where it is served: `HOST:PORT`, or a port on this machine's loopback address; `off` for no page. Empty: `evenkeel train` takes a
        /// free port of the loopback address, `evenkeel serve orchestrator` serves none. Anyone who reaches the address can read the run.
        listen: String = String::new(),
    }
}

impl PageSettings {
    /// The address to listen on, with `unset` where the setting is empty. `None` for no page.
    ///
    /// # Errors
    /// A value that is neither an address nor a port.
    pub fn address(&self, unset: Option<&str>) -> Result<Option<String>, FieldError> {
        let listen = self.listen.trim();
        if listen.is_empty() {
            return Ok(unset.map(str::to_owned));
        }
        if listen == OFF {
            return Ok(None);
        }
        if listen.parse::<u16>().is_ok() {
            return Ok(Some(format!("127.0.0.1:{listen}")));
        }
        match listen.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(Some(listen.to_owned())),
            _ => Err(FieldError::new("page.listen", format_args!("{listen:?}"), "HOST:PORT, a port, or `off`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_loopback_by_default() {
        let of = |listen: &str, unset| PageSettings { listen: listen.to_owned() }.address(unset);
        let some = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(of("", Some("127.0.0.1:0")), some("127.0.0.1:0"));
        assert_eq!((of("", None), of("off", Some("127.0.0.1:0"))), (Ok(None), Ok(None)));
        assert_eq!(of("8080", None), some("127.0.0.1:8080"));
        assert_eq!((of("0.0.0.0:80", None), of("[::1]:80", None)), (some("0.0.0.0:80"), some("[::1]:80")));
        for wrong in ["on", "localhost", ":80", "localhost:http", "70000"] {
            let error = of(wrong, None).unwrap_err().to_string();
            assert!(error.contains("page.listen") && error.contains(wrong) && error.contains("HOST:PORT"), "{error}");
        }
    }
}
