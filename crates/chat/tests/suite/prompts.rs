//! Prompts as a model sees them, with the committed tokenizer and templates.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_chat::{
    ChatTemplate, Message, Prompt, PromptError, PromptRenderer, PromptSettings, TemplateArguments, TemplateValue,
    end_tokens,
};
use evenkeel_model_folder::{ChatTemplates, ConfigFile, Folder, SpecialTokens, Tokenizer};
use serde_json::json;

/// Says who spoke, ends turns with `<|im_end|>`, and asks for thoughts unless they are switched off.
const TURNS: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n\
    {% if thinking is not defined or thinking %}<think>{% endif %}{% endif %}";

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn tokenizer() -> Arc<Tokenizer> {
    Arc::new(Tokenizer::require(&Folder::new(golden())).unwrap())
}

fn template(text: &str) -> Arc<ChatTemplate> {
    let templates = ChatTemplates { default: Some(text.to_owned()), named: BTreeMap::new() };
    Arc::new(ChatTemplate::new(templates, SpecialTokens::default()).unwrap())
}

fn renderer(text: Option<&str>, settings: PromptSettings) -> PromptRenderer {
    PromptRenderer::new(text.map(template), tokenizer(), settings).unwrap()
}

fn text(prompt: &Prompt, settings: PromptSettings) -> String {
    renderer(Some(TURNS), settings).render(prompt).unwrap().text
}

fn asked(text: &str) -> Prompt {
    Prompt::Text(text.to_owned())
}

fn messages(pairs: &[(&str, &str)]) -> Prompt {
    Prompt::Messages(pairs.iter().map(|(role, content)| Message::text(role, content)).collect())
}

#[test]
fn a_text_is_a_message_of_the_user_and_an_answer_follows() {
    let found = text(&asked("1+1?"), PromptSettings::default());
    assert_eq!(found, "<|im_start|>user\n1+1?<|im_end|>\n<|im_start|>assistant\n<think>");
}

#[test]
fn a_text_goes_in_as_it_is_without_a_template_or_where_the_settings_say_so() {
    let raw = PromptSettings { raw: true, suffix: "!".into(), ..PromptSettings::default() };
    assert_eq!(text(&asked("1+1?"), raw.clone()), "1+1?!");
    assert_eq!(renderer(None, PromptSettings::default()).render(&asked("1+1?")).unwrap().text, "1+1?");
    let refused = renderer(Some(TURNS), raw).render(&messages(&[("user", "a")])).unwrap_err().to_string();
    assert_eq!(refused, "the prompt is a list of messages, allowed: a text, because prompts go in raw");
    let refused = renderer(None, PromptSettings::default()).render(&messages(&[("user", "a")])).unwrap_err();
    assert!(refused.to_string().contains("the tokenizer has no chat template"), "{refused}");
}

#[test]
fn tokens_are_those_of_the_text_and_special_tokens_are_one_each() {
    let found = renderer(Some(TURNS), PromptSettings::default()).render(&asked("é")).unwrap();
    let tokenizer = tokenizer();
    assert_eq!(found.token_ids, tokenizer.encode(&found.text, false).unwrap());
    assert_eq!(found.token_ids.first().copied(), tokenizer.id("<|im_start|>"));
    assert_eq!(tokenizer.decode(&found.token_ids, false).unwrap(), found.text);
}

#[test]
fn the_system_prompt_is_for_conversations_without_one() {
    let settings = PromptSettings { system_prompt: Some("be short".into()), ..PromptSettings::default() };
    assert!(
        text(&asked("a"), settings.clone()).starts_with("<|im_start|>system\nbe short<|im_end|>\n<|im_start|>user\na")
    );
    for role in ["system", "developer"] {
        let own = text(&messages(&[(role, "be long"), ("user", "a")]), settings.clone());
        assert!(own.starts_with(&format!("<|im_start|>{role}\nbe long<|im_end|>\n<|im_start|>user")), "{own}");
    }
}

#[test]
fn no_message_vanishes_whose_role_the_template_does_not_read() {
    let known = "{% for m in messages if m.role in ['system', 'user', 'assistant'] %}<|im_start|>{{ m.role }}\n\
        {{ m.content }}<|im_end|>\n{% endfor %}";
    let settings = PromptSettings { system_prompt: Some("be long".into()), ..PromptSettings::default() };
    let render = |prompt: &Prompt| renderer(Some(known), settings.clone()).render(prompt).map(|found| found.text);
    let found = render(&messages(&[("developer", "be short"), ("user", "a")])).unwrap();
    assert!(found.starts_with("<|im_start|>system\nbe short<|im_end|>\n<|im_start|>user\na"), "{found}");
    let error = render(&messages(&[("user", "a"), ("function", "two")])).unwrap_err().to_string();
    assert!(error.ends_with("it leaves out messages[2], of the role `function`"), "{error}");
}

#[test]
fn no_call_of_a_tool_vanishes_that_the_template_does_not_write() {
    let call = json!({"type": "function", "function": {"name": "weather", "arguments": {"city": "Paris"}}});
    let said = json!({"role": "assistant", "content": "", "tool_calls": [call]});
    let asked = json!([{"role": "user", "content": "warm?"}, said, {"role": "tool", "content": "22"}]);
    let asked = Prompt::new("prompt", asked).unwrap();
    let render = |template| renderer(Some(template), PromptSettings::default()).render(&asked);
    let error = render(TURNS).unwrap_err().to_string();
    assert!(error.ends_with("it leaves out the tool_calls of messages[1]"), "{error}");
    let with_calls = "{% for m in messages %}{{ m.content }}{% for call in m.tool_calls or [] %}\
        {{ call.function.name }}{% endfor %}{% endfor %}";
    assert_eq!(render(with_calls).unwrap().text, "warm?weather22");
    // Also where the row has a text for models without a template, and with the system prompt that a template demands.
    let Prompt::Messages(messages) = &asked else { panic!("{asked:?}") };
    let either = Prompt::Either { messages: messages.clone(), text: "warm?".into() };
    let demanding = |template: &str| {
        let demand = "{% if messages[0].role != 'system' %}{{ raise_exception('no system') }}{% endif %}";
        let settings = PromptSettings { system_prompt: Some("be short".into()), ..PromptSettings::default() };
        let renderer = renderer(Some(&format!("{demand}{template}")), settings);
        [&asked, &either].map(|prompt| renderer.render(prompt).map(|found| found.text))
    };
    for found in demanding(with_calls) {
        assert_eq!(found.unwrap(), "be shortwarm?weather22");
    }
    for refused in demanding(TURNS) {
        let error = refused.unwrap_err().to_string();
        assert!(error.ends_with("it leaves out the tool_calls of messages[1]"), "{error}");
    }
}

#[test]
fn a_system_prompt_needs_a_template_to_stand_in() {
    let settings = PromptSettings { system_prompt: Some("be short".into()), ..PromptSettings::default() };
    let error = PromptRenderer::new(None, tokenizer(), settings.clone()).unwrap_err().to_string();
    assert_eq!(error, "system_prompt is \"be short\", allowed: none for a model without a chat template");
    let raw = PromptSettings { raw: true, ..settings };
    assert!(PromptRenderer::new(Some(template(TURNS)), tokenizer(), raw).is_err());
}

#[test]
fn the_suffix_is_appended_to_the_last_message_of_the_user() {
    let settings = PromptSettings { suffix: " Box it.".into(), ..PromptSettings::default() };
    let found = text(&messages(&[("user", "a"), ("assistant", "b"), ("user", "c"), ("tool", "d")]), settings.clone());
    assert!(found.contains("user\na<|im_end|>") && found.contains("user\nc Box it.<|im_end|>"), "{found}");
    let parts = json!([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}]);
    let parts = Prompt::new("prompt", parts).unwrap();
    let of_parts =
        "{% for m in messages %}{% for part in m.content %}{{ part.type }}={{ part.text }};{% endfor %}{% endfor %}";
    let found = renderer(Some(of_parts), settings.clone()).render(&parts).unwrap().text;
    assert!(found.starts_with("text=a Box it.;image="), "{found}");
    // A template for texts would print the list.
    let error = renderer(Some(TURNS), settings).render(&parts).unwrap_err();
    assert!(matches!(error, PromptError::Parts), "{error}");
}

#[test]
fn a_conversation_that_ends_with_the_assistant_is_continued() {
    let prefilled = messages(&[("user", "a"), ("assistant", "The answer is ")]);
    let found = text(&prefilled, PromptSettings::default());
    assert_eq!(found, "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nThe answer is ");
    let closed = json!({"continue_final_message": false});
    let settings = PromptSettings { template_arguments: closed.as_object().unwrap().clone(), ..Default::default() };
    assert!(text(&prefilled, settings).ends_with("The answer is <|im_end|>\n"));
}

#[test]
fn arguments_reach_the_template() {
    let arguments = json!({"thinking": false}).as_object().unwrap().clone();
    let settings = PromptSettings { template_arguments: arguments, ..Default::default() };
    assert!(text(&asked("a"), settings).ends_with("<|im_start|>assistant\n"));
    let arguments = json!({"truncation": true}).as_object().unwrap().clone();
    let settings = PromptSettings { template_arguments: arguments, ..Default::default() };
    let error = PromptRenderer::new(Some(template(TURNS)), tokenizer(), settings).unwrap_err().to_string();
    assert!(error.contains("`truncation` is not supported"), "{error}");
}

#[test]
fn what_a_template_refuses_is_an_error_in_its_words() {
    let refusing = "{{ raise_exception('no ' + messages[0].role) }}";
    let found = renderer(Some(refusing), PromptSettings::default()).render(&asked("a")).unwrap_err().to_string();
    assert_eq!(found, "the chat template does not render the prompt: no user");
}

#[test]
fn many_prompts_are_rendered_in_their_order() {
    let renderer = renderer(Some(TURNS), PromptSettings::default());
    let prompts: Vec<_> = (0..500).map(|index| asked(&index.to_string())).collect();
    let one_by_one: Vec<_> = prompts.iter().map(|prompt| renderer.render(prompt)).collect();
    let asked: Vec<_> = prompts.iter().map(|prompt| (prompt, None)).collect();
    assert_eq!(renderer.render_all(&asked), one_by_one);
}

#[test]
fn a_prompt_may_have_a_suffix_of_its_own() {
    let settings = PromptSettings { suffix: " Box it.".into(), ..PromptSettings::default() };
    let renderer = renderer(Some(TURNS), settings);
    let question = asked("1+1?");
    let found = renderer.render_all(&[(&question, None), (&question, Some(" Run it.")), (&question, Some(""))]);
    let asked: Vec<_> = found.into_iter().map(|rendered| rendered.unwrap().text).collect();
    for (text, expected) in asked.iter().zip(["1+1? Box it.", "1+1? Run it.", "1+1?"]) {
        assert!(text.starts_with(&format!("<|im_start|>user\n{expected}<|im_end|>")), "{text}");
    }
}

#[test]
fn tools_have_a_template_of_their_own_and_others_are_asked_for_by_name() {
    let named = [("tool_use", "tools {{ tools | length }}"), ("rag", "rag")];
    let named = named.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let templates = ChatTemplates { default: Some("plain".into()), named: named.into_iter().collect() };
    let rendered = |templates: ChatTemplates, arguments: serde_json::Value| {
        let template = ChatTemplate::new(templates, SpecialTokens::default()).unwrap();
        let conversation = TemplateValue::from(&json!([{"role": "user", "content": "a"}]));
        let arguments = TemplateArguments::new(&TemplateValue::from(&arguments)).unwrap();
        template.render(&conversation, &arguments).map_err(|error| error.to_string())
    };
    let rendered_with = |arguments| rendered(templates.clone(), arguments).unwrap();
    assert_eq!(rendered_with(json!({})), "plain");
    assert_eq!(rendered_with(json!({"tools": [{"name": "f"}]})), "tools 1");
    assert_eq!(rendered_with(json!({"tools": [{"name": "f"}], "chat_template": "default"})), "plain");
    assert_eq!(rendered_with(json!({"chat_template": "rag"})), "rag");
    assert_eq!(rendered_with(json!({"chat_template": "a {{ messages[0].role }}"})), "a user");
    let without_default = ChatTemplates { default: None, ..templates.clone() };
    let error = rendered(without_default, json!({})).unwrap_err();
    assert!(error.ends_with("Available template names are ['rag', 'tool_use']."), "{error}");
}

#[test]
fn the_end_of_a_turn_in_the_template_ends_a_response_too() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    std::fs::copy(golden().join("tokenizer.json"), dir.path().join("tokenizer.json")).unwrap();
    write("config.json", &json!({"vocab_size": 300, "eos_token_id": 5}).to_string());
    let tokenizer = tokenizer();
    let ends = |template: &str| {
        write("chat_template.jinja", template);
        let folder = Folder::new(dir.path());
        end_tokens(&folder, &ConfigFile::read(&folder).unwrap(), Some(&tokenizer)).unwrap()
    };
    let turn = tokenizer.id("<|im_end|>");
    assert!(turn.is_some());
    assert_eq!(ends(TURNS).template, turn);
    assert_eq!(ends(TURNS).others(), [5].into_iter().chain(turn).collect::<Vec<_>>());
    assert_eq!(ends("{% for m in messages %}{{ m.content }} <|eot|>{% endfor %}").template, tokenizer.id("<|eot|>"));
    assert_eq!(ends("{% for m in messages %}{{ m.content }}<end>{% endfor %}").template, None, "no special token");
    assert_eq!(ends("{{ raise_exception('never') }}").template, None);
    assert_eq!(ends("{% broken").template, None);
}

#[test]
fn a_prompt_in_two_forms_is_a_conversation_where_there_is_a_template_and_a_text_elsewhere() {
    let messages = vec![Message::text("system", "be brief"), Message::text("user", "1+1?")];
    let either = Prompt::Either { messages: messages.clone(), text: "be brief: 1+1?".to_owned() };
    let settings = || PromptSettings { suffix: "!".into(), ..PromptSettings::default() };
    assert_eq!(text(&either, settings()), text(&Prompt::Messages(messages), settings()));
    let raw = PromptSettings { raw: true, ..settings() };
    assert_eq!(text(&either, raw), "be brief: 1+1?!");
    assert_eq!(renderer(None, settings()).render(&either).unwrap().text, "be brief: 1+1?!");
}
