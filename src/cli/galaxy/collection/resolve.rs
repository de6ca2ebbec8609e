//! Chooses the version of every collection, so that all requirements hold (PubGrub).

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use pubgrub::{
    DefaultStringReporter, Dependencies, DependencyProvider, PackageResolutionStatistics, PubGrubError, Ranges,
    Reporter as _, resolve,
};
use semver::Version;

use super::name::{Name, Range};
use super::published::{self, Published};
use crate::cli::galaxy::server::{Server, Servers};
use crate::error::{Error, Result};

/// Requirements to fulfil, and the collections they are chosen from.
pub(super) struct Resolution<'a> {
    pub(super) servers: &'a Servers,
    /// Wanted by the user, in order.
    pub(super) wanted: Vec<(Name, Range)>,
    /// Server for a collection whose requirement names one.
    pub(super) sources: HashMap<Name, Servers>,
    /// Archives and directories, each with its only version.
    pub(super) given: HashMap<Name, (Version, Vec<(Name, Range)>)>,
    /// Installed collections, preferred over newer ones.
    pub(super) installed: BTreeMap<Name, (Version, Vec<(Name, Range)>)>,
    /// Versions of a lock file; no others are chosen.
    pub(super) locked: Option<HashMap<Name, Version>>,
    /// Choose pre-releases too.
    pub(super) pre: bool,
    pub(super) no_dependencies: bool,
    /// Contact no server.
    pub(super) offline: bool,
    pub(super) known: Known,
}

/// Answers of servers.
#[derive(Default)]
pub(super) struct Known {
    versions: RefCell<HashMap<Name, Vec<Version>>>,
    published: RefCell<HashMap<(Name, Version), Published>>,
    /// Position of the server that has the collection.
    places: RefCell<HashMap<Name, usize>>,
    unknown: RefCell<BTreeSet<Name>>,
    /// Whether a pre-release was left out.
    left_out: Cell<bool>,
}

/// A node of the graph of dependencies.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Node {
    /// The command line or the requirements file.
    Request,
    Collection(Name),
}

impl fmt::Display for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Request => formatter.write_str("this request"),
            Node::Collection(name) => name.fmt(formatter),
        }
    }
}

/// Version of the request, which has none.
const NO_VERSION: Version = Version::new(0, 0, 0);

impl Resolution<'_> {
    /// Chosen versions: the wanted collections in their order, then dependencies by name.
    pub(super) fn solve(&self) -> Result<Vec<(Name, Version)>> {
        let mut chosen = match resolve(self, Node::Request, NO_VERSION) {
            Ok(chosen) => chosen,
            Err(PubGrubError::NoSolution(tree)) => return Err(self.failure(&DefaultStringReporter::report(&tree))),
            Err(
                PubGrubError::ErrorRetrievingDependencies { source, .. }
                | PubGrubError::ErrorChoosingVersion { source, .. }
                | PubGrubError::ErrorInShouldCancel(source),
            ) => return Err(source),
        };
        let mut ordered = Vec::new();
        for (name, _) in &self.wanted {
            let version = chosen.remove(&Node::Collection(name.clone()));
            ordered.extend(version.map(|version| (name.clone(), version)));
        }
        let rest = chosen.into_iter().filter_map(|(node, version)| match node {
            Node::Request => None,
            Node::Collection(name) => Some((name, version)),
        });
        let mut rest: Vec<_> = rest.collect();
        rest.sort();
        ordered.extend(rest);
        Ok(ordered)
    }

    fn failure(&self, report: &str) -> Error {
        let mut message = "Failed to resolve the requested dependencies map.".to_owned();
        let unknown: Vec<String> = self.known.unknown.borrow().iter().map(Name::to_string).collect();
        if !unknown.is_empty() {
            let place = if self.offline { "is not installed, and no server is contacted" } else { "was not found" };
            message += &format!(" {} {place}.", unknown.join(", "));
        }
        let request = format!("{} {NO_VERSION}", Node::Request);
        let report = report.replace(&request, &Node::Request.to_string());
        let report = report.replace("this request is forbidden", "this request cannot be met");
        message += &format!("\n{}", report.replace("this request, ", "this request and "));
        let error = Error::new(message);
        match self.known.left_out.get() {
            true => error.hint("pre-releases are left out; take them with --pre, or by naming one exactly"),
            false => error,
        }
    }

    /// Servers that may have a collection.
    fn servers(&self, name: &Name) -> &Servers {
        self.sources.get(name).unwrap_or(self.servers)
    }

    /// Server that has a collection.
    pub(super) fn server(&self, name: &Name) -> Result<&Server> {
        self.versions(name)?;
        let place = self.known.places.borrow().get(name).copied();
        let server = place.and_then(|place| self.servers(name).0.get(place));
        server.ok_or_else(|| Error::new(format!("no Galaxy server has {name}")))
    }

    pub(super) fn published(&self, name: &Name, version: &Version) -> Result<Published> {
        let key = (name.clone(), version.clone());
        if let Some(known) = self.known.published.borrow().get(&key) {
            return Ok(known.clone());
        }
        let found = published::details(self.server(name)?, name, version)?;
        self.known.published.borrow_mut().insert(key, found.clone());
        Ok(found)
    }

    /// Versions of a collection, the newest first. The first server that has it decides: a later one cannot replace a
    /// site's own collection by a higher version.
    fn versions(&self, name: &Name) -> Result<Vec<Version>> {
        if let Some(known) = self.known.versions.borrow().get(name) {
            return Ok(known.clone());
        }
        let mut found = Vec::new();
        if !self.offline {
            for (place, server) in self.servers(name).0.iter().enumerate() {
                if let Some(versions) = published::versions(server, name)? {
                    self.known.places.borrow_mut().insert(name.clone(), place);
                    found = versions;
                    break;
                }
            }
        }
        if self.known.places.borrow().get(name).is_none() {
            self.known.unknown.borrow_mut().insert(name.clone());
        }
        found.sort_by(|a, b| b.cmp(a));
        self.known.versions.borrow_mut().insert(name.clone(), found.clone());
        Ok(found)
    }
}

impl DependencyProvider for Resolution<'_> {
    type P = Node;
    type V = Version;
    type VS = Ranges<Version>;
    type Priority = (u32, Reverse<usize>);
    type M = String;
    type Err = Error;

    /// Decides collections with conflicts first, then those that the user wants, in order.
    fn prioritize(&self, node: &Node, _: &Ranges<Version>, statistics: &PackageResolutionStatistics) -> Self::Priority {
        let place = match node {
            Node::Request => 0,
            Node::Collection(name) => {
                let place = self.wanted.iter().position(|(wanted, _)| wanted == name);
                place.map_or(usize::MAX, |place| place + 1)
            }
        };
        (statistics.conflict_count(), Reverse(place))
    }

    fn choose_version(&self, node: &Node, range: &Ranges<Version>) -> Result<Option<Version>> {
        let Node::Collection(name) = node else { return Ok(Some(NO_VERSION)) };
        if let Some((version, _)) = self.given.get(name) {
            return Ok(Some(version.clone()).filter(|version| range.contains(version)));
        }
        if let Some(locked) = &self.locked {
            return Ok(locked.get(name).filter(|version| range.contains(version)).cloned());
        }
        if let Some((version, _)) = self.installed.get(name)
            && range.contains(version)
        {
            return Ok(Some(version.clone()));
        }
        let accepts = |version: &Version| {
            let accepted = self.pre || version.pre.is_empty() || range.as_singleton() == Some(version);
            self.known.left_out.set(self.known.left_out.get() || !accepted);
            accepted
        };
        Ok(self.versions(name)?.into_iter().find(|version| range.contains(version) && accepts(version)))
    }

    fn get_dependencies(&self, node: &Node, version: &Version) -> Result<Dependencies<Node, Ranges<Version>, String>> {
        let wanted = match node {
            Node::Request => self.wanted.clone(),
            Node::Collection(_) if self.no_dependencies => Vec::new(),
            Node::Collection(name) => match self.given.get(name).or_else(|| self.installed.get(name)) {
                Some((known, dependencies)) if known == version => dependencies.clone(),
                _ => self.published(name, version)?.dependencies,
            },
        };
        let mut ranges: HashMap<Node, Ranges<Version>> = HashMap::new();
        for (name, range) in wanted {
            let known = ranges.entry(Node::Collection(name)).or_insert_with(Ranges::full);
            *known = known.intersection(&range.versions);
        }
        Ok(Dependencies::Available(ranges.into_iter().collect()))
    }
}
