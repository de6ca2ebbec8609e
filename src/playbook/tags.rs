//! Tags, written or as templates, with those of everything around.

use std::sync::Arc;

use windlass_template::Context;
use windlass_yaml::Mapping;

use super::keyword::Keywords;
use super::load::Loader;
use super::model::Frame;
use crate::error::Result;

impl Loader {
    /// The tags of something inside a frame.
    pub(super) fn tags_under(
        &self,
        keywords: &Keywords,
        frame: &Arc<Frame>,
        vars: &Arc<Mapping>,
    ) -> Result<Arc<[String]>> {
        let own = keywords.list("tags");
        if own.is_empty() {
            return Ok(Arc::clone(&frame.tags));
        }
        let mut tags = frame.tags.to_vec();
        for node in own {
            match node.as_str() {
                Some(text) if text.contains("{{") => add_tags_of(&self.static_value(&node, frame, vars)?, &mut tags),
                _ => add_tags(&node.scalar_text().unwrap_or_default(), &mut tags),
            }
        }
        Ok(tags.into())
    }
}

/// The tags of a play and of what imports it.
pub(super) fn tags_of_play(keywords: &Keywords, inherited: &Keywords, context: &Context) -> Vec<String> {
    let mut tags = Vec::new();
    for node in inherited.list("tags").iter().chain(&keywords.list("tags")) {
        match context.render(node) {
            Ok(value) => add_tags_of(&value, &mut tags),
            Err(_) => add_tags(&context.render_tolerant(node), &mut tags),
        }
    }
    tags
}

/// A template may come to a list of tags.
fn add_tags_of(value: &windlass_template::Value, tags: &mut Vec<String>) {
    match value.kind() {
        minijinja::value::ValueKind::Seq => {
            value.try_iter().into_iter().flatten().for_each(|item| add_tags(&windlass_template::text(&item), tags));
        }
        _ => add_tags(&windlass_template::text(value), tags),
    }
}

fn add_tags(text: &str, tags: &mut Vec<String>) {
    for tag in text.split(',').map(str::trim).filter(|tag| !tag.is_empty()) {
        if !tags.iter().any(|known| known == tag) {
            tags.push(tag.to_owned());
        }
    }
}
