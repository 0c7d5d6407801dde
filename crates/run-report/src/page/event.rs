//! Server-sent events: what a stream of the live page is made of.

use serde::Serialize;

/// An event: its name, and a value as JSON in one line.
pub fn event(name: &'static str, value: &impl Serialize) -> String {
    // Texts, numbers and lists have a JSON, and JSON has no line break.
    let data = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
    format!("event: {name}\ndata: {data}\n\n")
}

/// A section that changed.
pub(super) fn section_event(id: &str, html: &str) -> String {
    #[derive(Serialize)]
    struct Section<'a> {
        id: &'a str,
        html: &'a str,
    }
    event("section", &Section { id, html })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_is_in_it() {
        let event = section_event("a", "x\r\n\ndata: y\n\nevent: z");
        assert_eq!(event.lines().count(), 3, "{event}");
        assert!(event.starts_with("event: section\ndata: {\"id\":\"a\"") && event.ends_with("\n\n"));
    }
}
