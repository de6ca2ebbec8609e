//! One task, one host, one item: conditions, arguments, the action itself, and what its result means.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use windlass_template::{Compat, Context, ErrorKind, Value, Variable};
use windlass_yaml::{Mapping, Node};

use super::ahead::Ahead;
use super::execute::{Shared, TaskOnHost};
use super::result::{Arguments, TaskResult};
use crate::action::{self, ActionContext, Failure};
use crate::error::Error;
use crate::output::{Event, Spending};
use crate::vars::{connection_variables, given, number, truth, unless_omitted};

/// Ansible's reason for a task that was not run.
pub const CONDITION_FALSE: &str = "Conditional result was False";

/// Arguments that are expressions and not rendered before the action looks at them.
fn is_expression(action: &str, argument: &str) -> bool {
    matches!((action, argument), ("debug", "var") | ("assert", "that") | ("validate_argument_spec", "argument_spec"))
}

/// A task or item that is ready to be done, or not to be done at all.
enum Prepared {
    Skipped(TaskResult),
    Ready { action: Box<ActionContext>, retries: Option<u64>, poll: u64 },
}

/// What the action of a task came to that was done ahead.
pub(super) enum Acted {
    Skipped(TaskResult),
    Failed(Failure, Option<Arguments>),
    Done { result: TaskResult, check: bool, args: Option<Arguments> },
}

impl Acted {
    /// Whether the executor does nothing that was sent behind it.
    pub(super) fn is_failure(&self) -> bool {
        match self {
            Acted::Skipped(_) => false,
            Acted::Failed(..) => true,
            Acted::Done { result, .. } => result.is("failed") || result.exits_badly(),
        }
    }
}

/// A result with the host the task was delegated to.
pub(super) struct ItemOutcome {
    pub(super) result: TaskResult,
    pub(super) delegate: Option<String>,
    /// What the action is done on is not the host itself: facts belong there.
    pub(super) context: Context,
}

impl TaskOnHost {
    /// Runs one item (or the whole task, if it does not loop).
    pub(super) async fn item(&self, context: &Context, ahead: Option<&Arc<Ahead>>) -> ItemOutcome {
        let mut delegate = None;
        let (outcome, args) = self.prepare_and_run(context, &mut delegate, ahead).await;
        self.outcome(context, delegate, outcome, args)
    }

    /// What an item came to, with what every result has.
    fn outcome(
        &self,
        context: &Context,
        delegate: Option<String>,
        outcome: Result<TaskResult, Failure>,
        args: Option<Arguments>,
    ) -> ItemOutcome {
        let mut result = match outcome {
            Ok(result) => result,
            Err(failure) => {
                let compat = self.shared.run.settings.compat;
                let is_undefined = matches!(&failure, Failure::Evaluation(error) if error.is_undefined());
                let of_argument = match &failure {
                    Failure::Evaluation(error) if error.is_undefined() => error.undefined_option(),
                    _ => None,
                };
                let mut result = failure.into_result(compat);
                // Before 2.19 what is undefined said nothing about change, but in the file of a template.
                let is_in_file = args.is_some() && self.task.short_action() == "template";
                if is_undefined && !is_in_file && compat == Compat::V2_18 {
                    result.remove("changed");
                }
                if let (Some(message), Compat::V2_18) = (of_argument, compat) {
                    result.set("msg", message);
                }
                result
            }
        };
        if result.get("skip_reason").is_none() && !result.is_unreachable() && result.get("failed").is_none() {
            result.set("failed", false);
        }
        if result.failed() {
            result = result.with_args(args);
        }
        ItemOutcome { result, delegate, context: context.clone() }
    }

    /// Whether all conditions hold; if not, the skipped result.
    pub(super) fn condition(&self, context: &Context) -> Result<Option<TaskResult>, Failure> {
        for condition in self.task.when.iter() {
            match context.condition(condition) {
                Ok(true) => {}
                Ok(false) => {
                    let shown = condition
                        .as_bool()
                        .map(Value::from)
                        .unwrap_or_else(|| Value::from(condition.scalar_text().unwrap_or_default()));
                    return Ok(Some(TaskResult::skipped(CONDITION_FALSE).with("false_condition", shown)));
                }
                Err(error) => return self.unknown_or(error, "its condition").map(Some),
            }
        }
        Ok(None)
    }

    /// The variables of a task with those of the connection that nobody has set: where the task is done, how and as whom.
    fn with_connection(&self, context: &Context, host: &str) -> Context {
        let settings = &self.shared.run.settings;
        let keyword = |name: &str| self.keyword(context, name).and_then(|node| given(context, node).ok()?);
        let address = || {
            let theirs = self.world.host_context(&Arc::from(host)).variable("ansible_host").ok().flatten();
            let is_implicit = self.world.inventory.host(host).is_some_and(|host| host.is_implicit());
            let own = if is_implicit { "127.0.0.1" } else { host };
            theirs.filter(|_| host != &*self.host).unwrap_or_else(|| Value::from(own))
        };
        let connection = || keyword("connection").unwrap_or_else(|| Value::from(settings.connection.as_str()));
        let user = || keyword("remote_user").or_else(|| settings.remote_user.as_deref().map(Value::from));
        let port = || keyword("port").or_else(|| settings.remote_port.map(Value::from));
        let is_missing = |name: &str| matches!(context.variable(name), Ok(None));
        let mut missing: IndexMap<Arc<str>, Variable> = IndexMap::new();
        let mut add = |name: &str, value: &dyn Fn() -> Option<Value>| {
            if is_missing(name)
                && let Some(value) = value()
            {
                missing.insert(Arc::from(name), Variable::Data(value));
            }
        };
        add("ansible_host", &|| Some(address()));
        add("ansible_connection", &|| Some(connection()));
        add("ansible_user", &user);
        add("ansible_port", &port);
        if missing.is_empty() { context.clone() } else { context.with(missing) }
    }

    /// In check mode something that depends on a task that was not run cannot be told; that is no failure.
    fn unknown_or(&self, error: windlass_template::Error, what: &str) -> Result<TaskResult, Failure> {
        match error.kind() {
            ErrorKind::Unknown { reason } => {
                Ok(TaskResult::skipped(&format!("not known in check mode: {what} depends on {reason}"))
                    .with("_windlass_unknown", true))
            }
            _ => Err(error.into()),
        }
    }

    async fn prepare_and_run(
        &self,
        context: &Context,
        delegate: &mut Option<String>,
        ahead: Option<&Arc<Ahead>>,
    ) -> (Result<TaskResult, Failure>, Option<Arguments>) {
        match self.prepare(context, delegate, ahead) {
            Err(failure) => (Err(failure), None),
            Ok(Prepared::Skipped(result)) => (Ok(result), None),
            Ok(Prepared::Ready { action, retries, poll }) => {
                (self.attempts(&action, retries, poll).await, Some(action.args))
            }
        }
    }

    /// The first half of a task that goes ahead: what its action came to, not yet judged.
    pub(super) async fn act(&self, ahead: &Arc<Ahead>) -> Acted {
        let mut nobody = None;
        match self.prepare(&self.scope(), &mut nobody, Some(ahead)) {
            Err(failure) => Acted::Failed(failure, None),
            Ok(Prepared::Skipped(result)) => Acted::Skipped(result),
            Ok(Prepared::Ready { action, .. }) => match action::run(&action).await {
                Err(failure) => Acted::Failed(failure, Some(action.args)),
                Ok(result) => Acted::Done { result, check: action.check, args: Some(action.args) },
            },
        }
    }

    /// The second half, with the variables that are known when its turn has come.
    pub(super) fn judged(&self, context: &Context, acted: Acted) -> ItemOutcome {
        let (outcome, args) = match acted {
            Acted::Failed(failure, args) => (Err(failure), args),
            Acted::Skipped(result) => (Ok(result), None),
            Acted::Done { mut result, check, args } => {
                let context =
                    if self.has_verdict() { self.with_connection(context, &self.host) } else { context.clone() };
                self.weigh(&context, check, None, &mut result);
                (Ok(result), args)
            }
        };
        self.outcome(context, None, outcome, args)
    }

    /// Evaluates everything the action needs.
    fn prepare(
        &self,
        context: &Context,
        delegate: &mut Option<String>,
        ahead: Option<&Arc<Ahead>>,
    ) -> Result<Prepared, Failure> {
        let start = Instant::now();
        let prepared = self.evaluate(context, delegate, ahead);
        if self.shared.run.settings.takes_times() {
            let _ = self.events.send(Event::Spent {
                host: Arc::clone(&self.host),
                task: Arc::clone(&self.task),
                start,
                on: Spending::Template(start.elapsed()),
            });
        }
        prepared
    }

    fn evaluate(
        &self,
        context: &Context,
        delegate: &mut Option<String>,
        ahead: Option<&Arc<Ahead>>,
    ) -> Result<Prepared, Failure> {
        let plain = context;
        let context = &self.with_connection(plain, &self.host);
        if let Some(skipped) = self.condition(context)? {
            return Ok(Prepared::Skipped(skipped));
        }
        *delegate = self.delegate(context)?;
        let context = &match delegate {
            None => context.clone(),
            Some(other) => {
                let theirs = crate::vars::variables_of(&self.world, &Arc::from(other.as_str()));
                let vars = Value::from_pairs([(Value::from(other.as_str()), theirs)]);
                self.with_connection(plain, other)
                    .with(IndexMap::from([(Arc::from("ansible_delegated_vars"), Variable::Data(vars))]))
            }
        };
        let args = match self.arguments(context) {
            Ok(args) => args,
            Err(Failure::Evaluation(error)) => return self.unknown_or(*error, "an argument").map(Prepared::Skipped),
            Err(failure) => return Err(failure),
        };
        let args = action::checked(self.task.short_action(), args)?;
        let task = &self.task;
        let flag = |name: &str| -> Result<Option<bool>, Failure> {
            let Some(node) = self.keyword(context, name) else { return Ok(None) };
            let Some(value) = given(context, node)? else { return Ok(None) };
            match value.as_str() {
                Some(text) if !is_boolean(text) => Err(Failure::Failed(format!(
                    "the field '{name}' has an invalid value ({text}): it is not a valid boolean"
                ))),
                _ => Ok(Some(truth(&value))),
            }
        };
        let whole = |name: &str, node: Option<&Node>| -> Result<Option<u64>, Failure> {
            let Some(node) = node else { return Ok(None) };
            let Some(value) = given(context, node)? else { return Ok(None) };
            number(&value).map(Some).ok_or_else(|| {
                Failure::Failed(format!("the field '{name}' has an invalid value ({value}): it must be a number"))
            })
        };
        let own = |name: &str| whole(name, task.keywords.get(name));
        let settings = &self.shared.run.settings;
        let connection = self.connection(plain, delegate.as_deref())?;
        for secret in connection
            .target
            .password
            .iter()
            .map(|secret| secret.expose())
            .chain(connection.become_user.iter().filter_map(|user| user.password.as_deref()))
        {
            self.shared.secrets.add(secret);
        }
        let check = flag("check_mode")?.unwrap_or(settings.check);
        let detach = own("async")?.unwrap_or(0);
        if detach > 0 && !action::supports_async(task.short_action()) {
            return Err(Failure::Failed(format!("This action ({}) does not support async.", task.action)));
        }
        let action = ActionContext {
            action: task.short_action().to_owned(),
            task: Arc::clone(task),
            host: Arc::clone(&self.host),
            context: context.clone(),
            world: Arc::clone(&self.world),
            args,
            connection,
            check,
            diff: flag("diff")?.unwrap_or(settings.diff),
            environment: self.environment(context)?,
            timeout: whole("timeout", task.keyword("timeout"))?.unwrap_or(settings.task_timeout),
            detach,
            no_log: self.no_log(context)?,
            files: Arc::clone(&self.shared.files),
            modules: Arc::clone(&self.shared.loader.modules),
            pool: Arc::clone(&self.shared.pool),
            events: self.events.clone(),
            secrets: self.shared.secrets.clone(),
            ahead: ahead.cloned(),
        };
        let poll = own("poll")?.unwrap_or(settings.poll_interval);
        Ok(Prepared::Ready { action: Box::new(action), retries: own("retries")?, poll })
    }

    /// Runs the action once, and waits for its job if it has one.
    async fn attempt(&self, action: &ActionContext, poll: u64) -> Result<TaskResult, Failure> {
        let mut running = action::run(action);
        let result = match action.timeout {
            0 => running.as_mut().await?,
            // The executor keeps the time of what it runs; what waits on this side is given up a little later.
            seconds => {
                let margin = if action::is_here(&action.action) { 0 } else { 5 };
                match tokio::time::timeout(Duration::from_secs(seconds + margin), running.as_mut()).await {
                    Ok(result) => result?,
                    Err(_) => return Ok(timed_out(&action.action, seconds)),
                }
            }
        };
        if action.detach == 0 || result.failed() || result.is_skipped() {
            return Ok(result);
        }
        if poll == 0 {
            return Ok(action::started(result, action.world.run.settings.compat));
        }
        Box::pin(self.wait_for(action, &result, poll)).await
    }

    /// Runs the action, again while `until` is not met.
    async fn attempts(&self, action: &ActionContext, retries: Option<u64>, poll: u64) -> Result<TaskResult, Failure> {
        let (task, context) = (&self.task, &action.context);
        let until = task.keywords.list("until");
        let retries = match (until.is_empty(), retries) {
            (true, None) => 0,
            (false, None) => 3,
            (_, Some(retries)) => retries,
        };
        let delay = match task.keywords.get("delay") {
            None => 5.0,
            Some(node) => given(context, node)?.and_then(|value| crate::vars::float(&value)).unwrap_or(5.0),
        };
        let mut attempt = 0;
        loop {
            attempt += 1;
            let mut result = self.attempt(action, poll).await?;
            self.weigh(context, action.check, (retries > 0).then_some(attempt), &mut result);
            if retries == 0 {
                return Ok(result);
            }
            let seen = self.with_registered(context, &result);
            let done = if until.is_empty() {
                !result.failed()
            } else {
                let mut met = true;
                for condition in &until {
                    met = met && seen.condition(condition)?;
                }
                met
            };
            if done || (action.check && result.is_skipped()) {
                return Ok(result);
            }
            if attempt > retries {
                result.set("attempts", retries);
                // What `failed_when` says counts more.
                if result.get("failed_when_result").is_none() {
                    result.set("failed", true);
                }
                return Ok(result);
            }
            result.set("retries", retries + 1);
            let _ = self.events.send(Event::Retry {
                host: self.host.to_string(),
                task: super::label::of_task(task, Some(context)),
                left: retries - attempt + 1,
                result: Arc::new(if action.no_log { censored(&result) } else { result }),
            });
            tokio::time::sleep(Duration::from_secs_f64(delay.max(0.0))).await;
        }
    }

    /// What the answer of an action means for the task.
    fn weigh(&self, context: &Context, check: bool, attempt: Option<u64>, result: &mut TaskResult) {
        if result.exits_badly() {
            result.set("failed", true);
            if result.get("msg").is_none() {
                result.set("msg", "non-zero return code");
            }
        }
        if check && result.is_skipped() {
            result.set("_windlass_not_run", true);
        }
        if let Some(attempt) = attempt {
            result.set("attempts", attempt);
        }
        // The conditions of the task may ask for it.
        if !result.is_skipped() && result.get("failed").is_none() {
            result.set("failed", false);
        }
        if !result.is_skipped() && self.has_verdict() {
            self.judge(&self.with_registered(context, result), result);
        }
    }

    /// Whether the task says itself what its result means.
    fn has_verdict(&self) -> bool {
        ["changed_when", "failed_when"].iter().any(|name| self.task.keywords.get(name).is_some())
    }

    /// Applies `changed_when` and `failed_when`.
    fn judge(&self, context: &Context, result: &mut TaskResult) {
        let decide = |name: &str| -> Result<Option<bool>, windlass_template::Error> {
            let conditions = self.task.keywords.list(name);
            if conditions.is_empty() {
                return Ok(None);
            }
            for condition in &conditions {
                if !context.condition(condition)? {
                    return Ok(Some(false));
                }
            }
            Ok(Some(true))
        };
        // What the action did stays known when the condition over it cannot be evaluated.
        match decide("changed_when") {
            Ok(None) => {}
            Ok(Some(changed)) => result.set("changed", changed),
            Err(error) => return unjudged(result, "changed_when_result", &error),
        }
        match decide("failed_when") {
            Ok(None) => {}
            Ok(Some(failed)) => {
                result.set("failed_when_result", failed);
                result.set("failed", failed);
            }
            Err(error) => unjudged(result, "failed_when_result", &error),
        }
    }

    pub(super) fn with_registered(&self, context: &Context, result: &TaskResult) -> Context {
        match &self.task.register {
            None => context.clone(),
            Some(name) => context.with(IndexMap::from([(Arc::clone(name), Variable::Data(result.to_value()))])),
        }
    }

    /// The arguments, rendered; what is `omit` is left out.
    pub(super) fn arguments(&self, context: &Context) -> Result<IndexMap<Arc<str>, Value>, Failure> {
        let task = &self.task;
        let action = task.short_action();
        let mut args: IndexMap<Arc<str>, Value> = IndexMap::new();
        for defaults in self.module_defaults(context)? {
            args.extend(defaults);
        }
        if let Some(node) = &task.args_template {
            let value = crate::vars::render(context, node)?;
            for key in value.try_iter().into_iter().flatten() {
                if let (Some(name), Ok(item)) = (key.as_str(), value.get_item(&key)) {
                    args.insert(name.into(), item);
                }
            }
        }
        for (key, node) in task.args.iter() {
            let name: Arc<str> = context.render_to_string(&key.as_node())?.into();
            let value = if is_expression(action, &name) && name.as_ref() != "argument_spec" {
                // It is evaluated by the action itself; here it only counts that it is there.
                Value::from(true)
            } else {
                match unless_omitted(context, node)? {
                    Some(value) => value,
                    None => {
                        args.shift_remove(&name);
                        continue;
                    }
                }
            };
            // `copy: "{{ a mapping }}"`: free text that is a mapping gives the arguments themselves.
            if &*name == "_raw_params" && action != "set_fact" && value.kind() == minijinja::value::ValueKind::Map {
                for key in value.try_iter().into_iter().flatten() {
                    if let (Some(name), Ok(item)) = (key.as_str(), value.get_item(&key)) {
                        args.insert(name.into(), item);
                    }
                }
                continue;
            }
            args.insert(name, value);
        }
        Ok(args)
    }

    /// The defaults of the groups the module is in, then its own; of several entries for one name the innermost counts.
    fn module_defaults(&self, context: &Context) -> Result<Vec<IndexMap<Arc<str>, Value>>, Failure> {
        let own = self.task.keywords.get("module_defaults").into_iter();
        let around = self.task.frame.chain().filter_map(|frame| frame.keywords.get("module_defaults"));
        let mut nodes: Vec<&Node> = own.chain(around).collect();
        if nodes.is_empty() {
            return Ok(Vec::new());
        }
        nodes.reverse();
        let modules = &self.shared.loader.modules;
        let collections = self.task.collections();
        let full = modules.full_name(&self.task.action, &collections);
        let (mut groups, mut specific) = (IndexMap::new(), None);
        for node in nodes {
            let maps: Vec<Node> = node.as_list().map(<[Node]>::to_vec).unwrap_or_else(|| vec![node.clone()]);
            for map in maps.iter().filter_map(Node::as_map) {
                for (key, defaults) in map.iter() {
                    let key_text = key.to_text();
                    let Some(group) = key_text.strip_prefix("group/") else {
                        if crate::playbook::short_name(&key_text) == self.task.short_action()
                            || modules.full_name(&key_text, &collections) == full
                        {
                            specific = Some(defaults.clone());
                        }
                        continue;
                    };
                    let Some(members) = modules.group(group) else {
                        let message = format!("could not resolve the module_defaults group {group}");
                        return Err(Error::parse(message, &key.span).into());
                    };
                    if members.contains(&full) {
                        groups.insert(group.to_owned(), defaults.clone());
                    }
                }
            }
        }
        let mut found = Vec::new();
        for node in groups.into_values().chain(specific) {
            let value = crate::vars::render(context, &node)?;
            let entries = value
                .try_iter()
                .into_iter()
                .flatten()
                .filter_map(|key| Some((Arc::from(key.as_str()?), value.get_item(&key).ok()?)));
            found.push(entries.collect());
        }
        Ok(found)
    }

    /// The host the task is done on, if it is another.
    fn delegate(&self, context: &Context) -> Result<Option<String>, Failure> {
        let Some(node) = self.task.keyword("delegate_to") else { return Ok(None) };
        let Some(value) = unless_omitted(context, node)? else { return Ok(None) };
        if node.as_str() == Some("") {
            return Ok(None);
        }
        let name = windlass_template::text(&value);
        if name.is_empty() || value.is_none() {
            return Err(Failure::Failed("delegate_to is empty: it must name a host".to_owned()));
        }
        Ok(Some(name))
    }

    /// The nearest value of a keyword that is not left out with `omit`.
    fn keyword(&self, context: &Context, name: &str) -> Option<&Node> {
        self.task.keyword_values(name).find(|node| !matches!(unless_omitted(context, node), Ok(None)))
    }

    /// How the host, or the one the task is delegated to, is reached.
    pub(super) fn connection(
        &self,
        context: &Context,
        delegate: Option<&str>,
    ) -> Result<crate::vars::ConnectionVariables, Failure> {
        let keyword = |name: &str| self.keyword(context, name).cloned();
        let settings = &self.shared.run.settings;
        match delegate {
            None => {
                let mut connection = connection_variables(&self.host, context, &keyword, settings)?;
                self.local_by_name(&mut connection, context);
                Ok(connection)
            }
            Some(other) => {
                let name: Arc<str> = Arc::from(other);
                let theirs = self.world.host_context(&name);
                // Keywords are the task's own and see its variables; the variables of the connection are the other host's.
                let rendered = |name: &str| {
                    let node = keyword(name)?;
                    let value = given(context, &node).ok()??;
                    Some(Node::literal(windlass_template::text(&value), node.span.clone()))
                };
                let mut connection = connection_variables(other, &theirs, &rendered, settings)?;
                self.local_by_name(&mut connection, &theirs);
                Ok(connection)
            }
        }
    }

    /// The implicit localhost is this machine.
    fn local_by_name(&self, connection: &mut crate::vars::ConnectionVariables, context: &Context) {
        let name = &connection.target.name;
        let implicit = self.world.inventory.host(name).is_some_and(windlass_inventory::Host::is_implicit);
        let said = context.variable("ansible_connection").ok().flatten().is_some()
            || self.task.keyword("connection").is_some();
        if implicit && !said {
            connection.target.kind = crate::connection::Kind::Local;
        }
    }

    /// The environment of the task's processes: that of the play and the blocks around, then the task's own.
    fn environment(&self, context: &Context) -> Result<BTreeMap<String, String>, Failure> {
        let own = self.task.keywords.get("environment").into_iter();
        let around = self.task.frame.chain().filter_map(|frame| frame.keywords.get("environment"));
        let mut nodes: Vec<&Node> = own.chain(around).collect();
        nodes.reverse();
        let mut environment = BTreeMap::new();
        for node in nodes {
            let known = self.without_unknown_facts(context, node);
            let Some(value) = given(context, known.as_ref().unwrap_or(node))? else { continue };
            let maps: Vec<Value> = match value.kind() {
                minijinja::value::ValueKind::Seq => value.try_iter().into_iter().flatten().collect(),
                _ => vec![value],
            };
            for map in maps.iter().filter(|map| !map.is_none()) {
                if map.kind() != minijinja::value::ValueKind::Map {
                    return Err(
                        Error::parse(format!("environment must be a dictionary, received {map}"), &node.span).into()
                    );
                }
                for key in map.try_iter().into_iter().flatten() {
                    if let Ok(item) = map.get_item(&key) {
                        environment.insert(windlass_template::text(&key), windlass_template::text(&item));
                    }
                }
            }
        }
        Ok(environment)
    }

    /// While facts are gathered, an environment is not yet made of them: what needs them is left out.
    fn without_unknown_facts(&self, context: &Context, node: &Node) -> Option<Node> {
        let map = node.as_map().filter(|_| matches!(self.task.short_action(), "gather_facts" | "setup"))?;
        let is_known = |node: &Node| !given(context, node).is_err_and(|error| error.is_undefined());
        let mut known = Mapping::new();
        for (key, node) in map.iter().filter(|(_, node)| is_known(node)) {
            known.insert(key.clone(), node.clone());
        }
        Some(Node::map(known, node.span.clone()))
    }

    /// Whether the result is hidden.
    pub(super) fn no_log(&self, context: &Context) -> Result<bool, Failure> {
        match self.task.keyword("no_log") {
            None => Ok(self.shared.run.settings.no_log),
            Some(node) => Ok(given(context, node)?.is_some_and(|value| truth(&value))),
        }
    }
}

/// The result of an action that took longer than it may.
fn timed_out(action: &str, seconds: u64) -> TaskResult {
    let message =
        format!("The {action} action failed to execute in the expected time frame ({seconds}) and was terminated");
    TaskResult::failure(message).with("timedout", Value::from_pairs([("period", seconds)]))
}

/// The task has failed because `changed_when` or `failed_when` cannot be evaluated.
fn unjudged(result: &mut TaskResult, key: &str, error: &windlass_template::Error) {
    result.set(key, error.to_string());
    result.set("failed", true);
}

/// Whether a text says true or false, in any of the words for it.
fn is_boolean(text: &str) -> bool {
    let words = ["true", "yes", "on", "1", "y", "t", "false", "no", "off", "0", "n", "f", ""];
    words.contains(&text.trim().to_lowercase().as_str())
}

/// What is shown of a hidden result.
pub(super) fn censored(result: &TaskResult) -> TaskResult {
    let reason = "the output has been hidden due to the fact that 'no_log: true' was specified for this result";
    result.only(&["changed", "attempts", "retries", "unreachable"]).with("censored", reason)
}

impl TaskOnHost {
    /// Tells the user something, in its turn.
    pub(super) fn warn(&self, sentence: impl Into<String>) {
        let _ = self.events.send(Event::Warning(sentence.into()));
    }
}

impl Shared {
    /// Tells the user something.
    pub fn warn(&self, sentence: impl Into<String>) {
        let _ = self.events.send(Event::Warning(sentence.into()));
    }
}
