//! Section `page`.

use std::path::PathBuf;

use evenkeel_proto::FieldError;
use evenkeel_rpc::exposure::validate_plaintext;
use evenkeel_rpc::server::validate_host;

use super::section::section;

/// The value that turns the page off.
const OFF: &str = "off";

section! {
    /// Section `page`: the page on which a run is watched in a browser.
    pub struct PageSettings {
        /// Where it is served: `HOST:PORT`, or a port on this machine's loopback address; `off` for no page. Empty:
        /// `evenkeel train` takes a free port of the loopback address, `evenkeel serve orchestrator` serves none.
        /// Anyone who reaches the address can read the run.
        listen: String = String::new(),
        /// Whether other machines may be served, which is in plaintext.
        insecure: bool = false,
        /// File with tokens, one on each line, of which a reader must have one: as the password that a browser asks
        /// for, with any name, or as a bearer token. Absent: anyone who reaches the address may read.
        token_file: Option<PathBuf> = None,
        /// Names under which browsers may request the page, besides every address, `localhost`, the name in `listen`
        /// and those of `--hosts`. Requests under other names are refused, so that no web site can read the page by pointing a name
        /// of its own at it.
        hosts: Vec<String> = Vec::new(),
    }
}

impl PageSettings {
    /// The address to listen on, with `unset` where the setting is empty. `None` for no page.
    ///
    /// # Errors
    /// A value that is neither an address nor a port; an invalid name in `hosts`.
    pub fn address(&self, unset: Option<&str>) -> Result<Option<String>, FieldError> {
        for (index, host) in self.hosts.iter().enumerate() {
            validate_host(&format!("page.hosts[{index}]"), host)?;
        }
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
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                let remedy = "or `insecure = true` next to it on a trusted network";
                validate_plaintext("page.listen", listen, self.insecure, remedy)?;
                Ok(Some(listen.to_owned()))
            }
            _ => Err(FieldError::quoted("page.listen", listen, "HOST:PORT, a port, or `off`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_loopback_by_default() {
        let address_of =
            |listen: &str, unset| PageSettings { listen: listen.to_owned(), ..PageSettings::default() }.address(unset);
        let some = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(address_of("", Some("127.0.0.1:0")), some("127.0.0.1:0"));
        assert_eq!((address_of("", None), address_of("off", Some("127.0.0.1:0"))), (Ok(None), Ok(None)));
        assert_eq!(address_of("8080", None), some("127.0.0.1:8080"));
        assert_eq!(
            (address_of("127.0.0.1:80", None), address_of("[::1]:80", None)),
            (some("127.0.0.1:80"), some("[::1]:80"))
        );
        for wrong in ["on", "localhost", ":80", "localhost:http", "70000"] {
            let error = address_of(wrong, None).unwrap_err().to_string();
            assert!(error.contains("page.listen") && error.contains(wrong) && error.contains("HOST:PORT"), "{error}");
        }
    }

    #[test]
    fn names_under_which_it_is_asked_for_have_no_port() {
        let page_on = |host: &str| PageSettings {
            hosts: vec!["a.example".to_owned(), host.to_owned()],
            ..PageSettings::default()
        };
        assert_eq!(page_on("trainer-1.example").address(None), Ok(None));
        for wrong in ["", "trainer:8080", "http://trainer", "*", "trainer example"] {
            let error = page_on(wrong).address(None).unwrap_err().to_string();
            assert!(error.starts_with(&format!("page.hosts[1] is {wrong:?}")) && error.contains("port"), "{error}");
        }
    }

    #[test]
    fn other_machines_are_served_only_where_that_is_meant() {
        let page = PageSettings { listen: "0.0.0.0:80".to_owned(), ..PageSettings::default() };
        let error = page.address(None).unwrap_err().to_string();
        assert!(
            error.starts_with("page.listen is \"0.0.0.0:80\" in plaintext") && error.contains("insecure"),
            "{error}"
        );
        let page = PageSettings { insecure: true, ..page };
        assert_eq!(page.address(None), Ok(Some("0.0.0.0:80".to_owned())));
    }
}
