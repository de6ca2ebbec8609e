//! Collects tags, rendered and with the tags of enclosing objects.

use std::sync::Arc;

use windlass_template::Context;
use windlass_yaml::{Mapping, Node};

use super::load::Loader;
use crate::error::Result;
use crate::playbook::{Frame, Keywords};

impl Loader {
    /// Tags of an object inside a frame.
    pub(super) fn tags_under(
        &self,
        keywords: &Keywords,
        frame: &Arc<Frame>,
        vars: &Arc<Mapping>,
    ) -> Result<Arc<[String]>> {
        let Some(own) = keywords.get("tags") else { return Ok(Arc::clone(&frame.tags)) };
        let mut tags = frame.tags.to_vec();
        for node in own.as_list().unwrap_or(std::slice::from_ref(own)) {
            match node.as_str() {
                Some(text) if text.contains("{{") => add_tags_of(&self.static_value(node, frame, vars)?, &mut tags),
                _ => add_written(own, &node.scalar_text().unwrap_or_default(), &mut tags),
            }
        }
        Ok(tags.into())
    }
}

/// Tags of a play and of the imports that lead to it.
pub(super) fn tags_of_play(keywords: &Keywords, inherited: &Keywords, context: &Context) -> Vec<String> {
    let mut tags = Vec::new();
    for own in inherited.get("tags").into_iter().chain(keywords.get("tags")) {
        for node in own.as_list().unwrap_or(std::slice::from_ref(own)) {
            match node.as_str() {
                Some(text) if text.contains("{{") => match context.render(node) {
                    Ok(value) => add_tags_of(&value, &mut tags),
                    Err(_) => add_written(own, &context.render_tolerant(node), &mut tags),
                },
                _ => add_written(own, &node.scalar_text().unwrap_or_default(), &mut tags),
            }
        }
    }
    tags
}

/// Adds a rendered tag, or a list of them. Rendered text is not split at commas.
fn add_tags_of(value: &windlass_template::Value, tags: &mut Vec<String>) {
    match value.kind() {
        minijinja::value::ValueKind::Seq => {
            value.try_iter().into_iter().flatten().for_each(|item| add_tag(&windlass_template::text(&item), tags));
        }
        _ => add_tag(&windlass_template::text(value), tags),
    }
}

/// Splits a text at commas if it is the keyword's whole value; each item of a list is one tag.
fn add_written(keyword: &Node, text: &str, tags: &mut Vec<String>) {
    match keyword.as_list() {
        Some(_) => add_tag(text, tags),
        None => text.split(',').for_each(|tag| add_tag(tag.trim(), tags)),
    }
}

fn add_tag(tag: &str, tags: &mut Vec<String>) {
    if !tag.is_empty() && !tags.iter().any(|known| known == tag) {
        tags.push(tag.to_owned());
    }
}
