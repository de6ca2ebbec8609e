//! JSON with positions.

use std::sync::Arc;

use crate::{Node, Options, Source};

pub(crate) fn parse(_source: &Arc<Source>, _options: &Options) -> Option<Node> {
    None
}
