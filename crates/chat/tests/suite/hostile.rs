//! Templates of an attacker: each ends in an error or in a text, soon, within bounded memory, and aborts
//! nothing.

use std::time::{Duration, Instant};

use evenkeel_chat::{ChatTemplate, TemplateArguments, TemplateValue};
use evenkeel_model_folder::ChatTemplates;

/// Renders on a thread with the stack of those that render prompts.
fn rendered(template: &str) -> Result<String, String> {
    let template = template.to_owned();
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(move || {
        let templates = ChatTemplates { default: Some(template), ..ChatTemplates::default() };
        let template = ChatTemplate::new(templates, Default::default()).map_err(|error| error.to_string())?;
        let messages = TemplateValue::parse(r#"[{"role": "user", "content": "hi"}]"#).unwrap();
        template.render(&messages, &TemplateArguments::default()).map_err(|error| error.to_string())
    });
    thread.unwrap().join().expect("no panic")
}

fn refused(template: &str, words: &str) {
    let began = Instant::now();
    let shown = &template[..template.len().min(100)];
    let error = rendered(template).expect_err(shown);
    assert!(error.contains(words), "{shown}: {}", &error[..error.len().min(300)]);
    assert!(began.elapsed() < Duration::from_secs(20), "{shown}: {:?}", began.elapsed());
}

#[test]
fn a_namespace_is_never_stored_in_itself() {
    let words = "a namespace cannot be stored in another value";
    for use_of in [
        "{{ ns }}",
        "{{ ns | tojson }}",
        "{{ ns == other }}",
        "{% for x in ns.a %}{{ x }}{% endfor %}",
        "{{ ns ~ '' }}",
    ] {
        let begin = "{% set ns = namespace() %}{% set other = namespace() %}";
        for store in [
            "{% set ns.a = ns %}",
            "{%- set ns.a=ns -%}",
            "{% set ns.a = [ns] %}",
            "{% set ns.a = {'b': [1, ns]} %}",
            "{% set ns.a = [ns] * 3 %}",
            "{% set ns.a = [1] + [ns] %}",
            "{% set ns.a = ns if true else 1 %}",
            "{% set ns.a | default(ns, true) %}{% endset %}",
            "{% set ns.a = other %}{% set other.a = ns %}",
            "{% set x, ns.a = 1, ns %}",
            "{% macro m(x) %}{% set x.a = x %}{% endmacro %}{{ m(ns) }}",
            "{% set ns.a = dict(b=ns) %}",
            "{% set ns.a = namespace(b=ns) %}",
        ] {
            refused(&format!("{begin}{store}{use_of}"), words);
        }
    }
    refused("{% set ns = namespace() %}{% set ns.a = cycler([ns]) %}{{ ns.a }}", "a namespace holds texts");
}

#[test]
fn values_do_not_become_deep_one_level_at_a_time() {
    let loops = "{% set ns = namespace(a=[]) %}{% for i in range(99999) %}";
    for store in [
        "{% set ns.a = [ns.a] %}",
        "{% set ns.a = {'a': ns.a} %}",
        "{% set ns.a = [ns.a] + [] %}",
        "{% set ns.a = [ns.a] * 2 %}",
    ] {
        refused(&format!("{loops}{store}{{% endfor %}}{{{{ ns.a }}}}"), "");
    }
    refused(&("{% set x = [] %}".to_owned() + &"{% set x = [x] %}".repeat(5000)), "64 deep");
    // Each level twice: few values with endless paths through them.
    refused(
        "{% set ns = namespace(a=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a }}",
        "nested in it",
    );
    let cyclers = "{% set x = [] %}".to_owned() + &"{%set x=cycler([x])%}".repeat(6000) + "{{ x is callable }}";
    assert!(rendered(&cyclers).is_ok(), "what only a source of that length makes fits the stack");
    refused("{% macro m(x) %}{{ m([x]) }}{% endmacro %}{{ m(1) }}", "");
}

#[test]
fn work_without_an_end_is_ended() {
    let ten = "{% for a in range(9999) %}".repeat(10) + &"{% endfor %}".repeat(10);
    refused(&ten, "fuel");
    refused(
        "{% set s = 'x' * 4000000 %}{% for a in range(99999) %}{% for b in range(99999) %}{% if s.find('y') > 0 %}{% endif %}{% endfor %}{% endfor %}",
        "fuel",
    );
    refused("{% for a in [1] * 1000000000000 %}{% endfor %}", "");
}

#[test]
fn texts_do_not_grow_without_bound() {
    for grow in [
        "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{{ 'x' * 1000000000000 }}",
        "{{ ('x' * 1000000).replace('x', 'y' * 1000000) }}",
        "{{ ('x' * 1000000) | replace('x', 'y' * 1000000) }}",
        "{{ ('x' * 1000000).replace('', 'y' * 1000000) }}",
        "{{ ('x' * 1000000).join('y' * 1000000) }}",
        "{{ ('x' * 1000000).join(['y'] * 1000000) }}",
        "{{ ['y'] * 1000000 | join('x' * 1000000) }}",
        "{{ (['y'] * 1000000) | join('x' * 1000000) }}",
        "{{ [1] * 1000000000000 }}",
        "{{ ([1] * 1000000000000) | tojson }}",
        "{{ ([1] * 1000000000000) | list | length }}",
        "{{ ([1] * 1000000000000) | string }}",
        "{{ (['x' * 1000000] * 1000000) | tojson }}",
        "{{ [['x' * 1000000] * 100] * 100 }}",
        "{{ [[[[1]]]] | tojson(separators=['x' * 9000000, '']) ~ ([1] * 1000000000) | tojson(separators=['x' * 1000000, '']) }}",
        "{% for i in range(99999) %}{{ 'x' * 1000000 }}{% endfor %}",
        "{% set x %}{% for i in range(99999) %}{{ 'x' * 1000000 }}{% endfor %}{% endset %}",
    ] {
        refused(grow, "");
    }
}

#[test]
fn formats_do_not_grow_without_bound() {
    for grow in [
        "{{ '%1000000000000d' | format(1) }}",
        "{{ '%*d' | format(1000000000000, 1) }}",
        "{{ '{:1000000000000}'.format(1) }}",
        "{{ '{:.1000000000000f}'.format(1.5) }}",
        "{{ '{:{}}'.format(1, 1000000000000) }}",
        "{{ '{a:{b}}'.format(a=1, b=1000000000000) }}",
        "{{ ('{0}' * 100000).format('x' * 1000000) }}",
        "{{ ('{:99999}' * 1000000).format(1) }}",
        "{{ ([1] * 1000000000000) ~ '' }}",
        "{{ 'x' | indent(1000000000000, true) }}",
        "{{ ([1] * 1000000000000) | first | string ~ (([1] * 1000000000000) | last) }}",
        "{{ ([1] * 1000000000000) | sort | length }}",
        "{{ 1 in ([2] * 1000000000000) }}",
        "{{ ([2] * 1000000000000) == ([2] * 1000000000000) }}",
    ] {
        let began = Instant::now();
        let result = rendered(grow);
        let length = result.map_or(0, |text| text.len());
        assert!(
            length < 64 << 20 && began.elapsed() < Duration::from_secs(20),
            "{grow}: {length}, {:?}",
            began.elapsed()
        );
    }
}

#[test]
fn sources_are_bounded_in_length_and_depth() {
    refused(&"x".repeat(200_000), "the template has 200000 bytes, allowed: at most 131072");
    for (open, inner, close) in [("(", "1", ")"), ("[", "1", "]"), ("{'a':", "1", "}")] {
        refused(&format!("{{{{ {}{inner}{} }}}}", open.repeat(9000), close.repeat(9000)), "");
    }
    refused(&("{% if 1 %}".repeat(9000) + &"{% endif %}".repeat(9000)), "");
    // Chains, which are long and not deep: any outcome will do.
    for (first, link) in [
        ("1", "+1"),
        ("'a'", "~'a'"),
        ("messages", "[0]"),
        ("messages", ".a"),
        ("'a'", "|upper"),
        ("1", "==1"),
        ("1", " and 1"),
        ("1", " or 1"),
        ("-", "-"),
        ("1", " if 1 else 1"),
    ] {
        let _ = rendered(&format!("{{{{ {first}{} }}}}", link.repeat(20_000)));
    }
    let _ = rendered(&format!("{{{{ {}1 }}}}", "not ".repeat(9000)));
    let _ = rendered(&("{% if 0 %}".to_owned() + &"{% elif 0 %}".repeat(9000) + "{% endif %}"));
}

#[test]
fn what_templates_of_models_do_with_namespaces_and_lists_works() {
    let template = "{% set ns = namespace(found=false, parts=[], last='') %}{% for m in messages %}{% set ns.found = true %}\
                    {% set ns.parts = ns.parts + [m.content] %}{% set ns.last = m %}{% endfor %}{% set a, b = 1, 2 %}\
                    {% set rest = messages[1:] %}{% set same = ns %}{{ ns.found }} {{ ns.parts }} {{ ns.last.role }} {{ a + b }} {{ rest }} {{ same.found }}";
    assert_eq!(rendered(template).unwrap(), "True ['hi'] user 3 [] True");
}
