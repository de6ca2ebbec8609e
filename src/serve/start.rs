//! The forms that start playbooks, and the way from a start to its run.

use std::collections::HashSet;

use hyper::StatusCode;
use serde_json::{Map, Value as Json, json};

use super::audit::{Event, Record};
use super::config::{Check, Startable};
use super::control::{Control, Visitor, see_other};
use super::fields::{Field, PREFIX};
use super::given::Given;
use super::starts::{Begun, Order, Start};
use super::{View, address, choices};
use crate::error::Result;
use crate::http::server::{Answer, Request};

/// Fields of every form.
const OWN: [&str; 5] = ["check", "form_token", "limit", "playbook", "tags"];

impl View<'_> {
    /// The playbooks that a user may start, or the form of one.
    pub(super) fn start_page(&self, control: &Control, visitor: &Visitor, request: &Request) -> Result<Answer> {
        let own = || visitor.config.playbooks.iter().filter(|one| one.allows(&visitor.user));
        if let Some(name) = request.value("playbook") {
            return match own().find(|one| one.name == name) {
                Some(startable) => self.form_page(control, visitor, startable, request, StatusCode::OK, &[]),
                None => self.refuse(control, visitor, request, "you may not start this playbook"),
            };
        }
        let row = |one: &Startable| {
            json!({
                "name": one.name,
                "href": address::start(&one.name),
                "playbook": one.playbook.display().to_string(),
                "inventory": one.cluster,
            })
        };
        let running = control.starts.running();
        let running = running.iter().map(|start| {
            json!({
                "name": start.name,
                "href": place(start),
                "user": start.user,
                "inventory": start.cluster,
            })
        });
        let page = json!({
            "title": "Start",
            "rows": own().map(row).collect::<Vec<_>>(),
            "running": running.collect::<Vec<_>>(),
        });
        Ok(self.html(StatusCode::OK, self.render("startables", "/start", page)?))
    }

    /// The form of a playbook, with the values that were sent and their problems.
    fn form_page(
        &self,
        control: &Control,
        visitor: &Visitor,
        startable: &Startable,
        request: &Request,
        status: StatusCode,
        problems: &[String],
    ) -> Result<Answer> {
        let given = |field: &Field| {
            request.form.is_some().then(|| request.field(&format!("{PREFIX}{}", field.name)).unwrap_or_default())
        };
        let fields = control.fields(startable)?;
        let chosen = |name: &str, values: &[String]| -> Vec<Json> {
            let first = values.first().map(String::as_str).unwrap_or_default();
            choices(values.iter().map(String::as_str), request.field(name).unwrap_or(first))
        };
        let page = json!({
            "title": format!("Start {}", startable.name),
            "name": startable.name,
            "playbook": startable.playbook.display().to_string(),
            "inventory": startable.cluster,
            "form_token": visitor.session.form_token,
            "fields": fields.iter().map(|field| field.shown(given(field))).collect::<Vec<_>>(),
            "limits": chosen("limit", &startable.limits),
            "tags": chosen("tags", &startable.tags),
            "check": match startable.check {
                Check::Never => "never",
                Check::Choice => "choice",
                Check::Always => "always",
            },
            "is_checked": request.field("check").is_some(),
            "problems": problems,
        });
        Ok(self.html(status, self.render("start", "/start", page)?))
    }

    /// Starts a playbook.
    pub(super) fn start(&self, control: &Control, visitor: &Visitor, request: &Request) -> Result<Answer> {
        let name = request.field("playbook").unwrap_or_default();
        let known = visitor.config.playbooks.iter().find(|one| one.name == name && one.allows(&visitor.user));
        let Some(startable) = known else {
            return self.refuse(control, visitor, request, &format!("you may not start `{name}`"));
        };
        let refuse = |status, reason: String, problems: &[String]| {
            let record = Record { name: Some(name.to_owned()), ..Record::of(Event::Refused, request.peer) };
            control.refused(Some(&visitor.user), record.because(reason))?;
            self.form_page(control, visitor, startable, request, status, problems)
        };
        match self.order(control, startable, request)? {
            // The sentences may hold values, so they are not recorded.
            Err(problems) => {
                refuse(StatusCode::BAD_REQUEST, "values that the form does not allow".to_owned(), &problems)
            }
            Ok(order) => match control.starts.begin(order, &visitor.user, request.peer, visitor.config.runs)? {
                Begun::Started(start) => Ok(see_other(&place(&start))),
                Begun::Busy(why) => refuse(StatusCode::CONFLICT, why.clone(), &[why]),
            },
        }
    }

    /// The run that a form asks for; otherwise its problems, a sentence each.
    fn order(
        &self,
        control: &Control,
        startable: &Startable,
        request: &Request,
    ) -> Result<std::result::Result<Order, Vec<String>>> {
        let fields = control.fields(startable)?;
        let mut problems = unknown(&fields, request);
        let mut given = Given::default();
        for field in &fields {
            match field.value(request.field(&format!("{PREFIX}{}", field.name))) {
                Ok(None) => {}
                Ok(Some(value)) => {
                    given.variables.insert(field.name.clone(), value);
                    given.secret.extend(field.is_secret.then(|| field.name.clone()));
                }
                Err(found) => problems.extend(found),
            }
        }
        let limit = one_of(&startable.limits, "limit", request, &mut problems);
        let tags = one_of(&startable.tags, "tags", request, &mut problems);
        let wants_check = request.field("check").is_some();
        if wants_check && startable.check == Check::Never {
            problems.push("this playbook has no dry run".to_owned());
        }
        let playbook = control.directory.join(&startable.playbook).canonicalize();
        let playbook = playbook.ok().filter(|path| path.is_file() && path.starts_with(&control.directory));
        if playbook.is_none() {
            problems.push(format!("`{}` is not a file of the project", startable.playbook.display()));
        }
        let cluster = self.pages.clusters.iter().find(|cluster| cluster.name == startable.cluster);
        let (Some(playbook), Some(cluster), true) = (playbook, cluster, problems.is_empty()) else {
            return Ok(Err(problems));
        };
        Ok(Ok(Order {
            name: startable.name.clone(),
            playbook,
            cluster: cluster.name.clone(),
            sources: cluster.sources.clone(),
            limit,
            tags,
            check: startable.check == Check::Always || wants_check,
            given,
        }))
    }

    /// A start: leads to its run, or shows why there is none.
    pub(super) fn started(&self, control: &Control, id: &str) -> Result<Answer> {
        let Some(start) = control.starts.find(id) else { return self.missing() };
        if let Some(run) = start.run() {
            return Ok(see_other(&address::live(&run)));
        }
        let end = start.end();
        let result = end.map_or("running", |end| end.result);
        let page = json!({
            "title": format!("{}: {result}", start.name),
            "name": start.name,
            "user": start.user,
            "result": result,
            "code": end.and_then(|end| end.code),
            "errors": start.errors(),
            "refresh": end.is_none(),
            "cancel": self.cancel_form(&start),
        });
        Ok(self.html(StatusCode::OK, self.render("started", "", page)?))
    }

    /// Cancels a run.
    pub(super) fn cancel(&self, control: &Control, visitor: &Visitor, request: &Request) -> Result<Answer> {
        let Some(start) = control.starts.find(request.field("start").unwrap_or_default()) else {
            return self.missing();
        };
        if !visitor.may_cancel(&start) {
            return self.refuse(control, visitor, request, "you may cancel only runs that you have started");
        }
        let record = Record {
            user: Some(visitor.user.name.clone()),
            role: Some(visitor.user.role.word().to_owned()),
            start: Some(start.id.clone()),
            run: start.run(),
            ..Record::of(Event::Cancelled, request.peer)
        };
        if start.end().is_none() {
            control.audit.add(record)?;
            start.cancel();
        }
        Ok(see_other(&place(&start)))
    }

    /// The form that cancels the run with this id, if the user may.
    pub(super) fn cancel_of(&self, run: &str) -> Option<Json> {
        let start = self.pages.control()?.starts.of_run(run)?;
        self.cancel_form(&start)
    }

    fn cancel_form(&self, start: &Start) -> Option<Json> {
        let visitor = self.visitor.as_ref().filter(|visitor| visitor.may_cancel(start) && start.end().is_none())?;
        let mut form = Map::new();
        form.insert("start".to_owned(), start.id.as_str().into());
        form.insert("form_token".to_owned(), visitor.session.form_token.as_str().into());
        form.insert("again".to_owned(), (start.cancels() > 0).into());
        Some(Json::Object(form))
    }
}

/// The page of a start: the view of its run, once that has a journal.
fn place(start: &Start) -> String {
    start.run().map_or_else(|| address::started(&start.id), |run| address::live(&run))
}

/// Problems with names in a form: unknown and repeated ones.
fn unknown(fields: &[Field], request: &Request) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut problems = Vec::new();
    for (name, _) in request.form.iter().flatten() {
        let variable = name.strip_prefix(PREFIX);
        if !OWN.contains(&name.as_str()) && !fields.iter().any(|field| Some(field.name.as_str()) == variable) {
            problems.push(format!("the form has no field `{name}`"));
        } else if !seen.insert(name) {
            problems.push(format!("`{name}` is given twice"));
        }
    }
    problems
}

/// The chosen one of several values; `None` if there is nothing to choose from.
fn one_of(values: &[String], name: &str, request: &Request, problems: &mut Vec<String>) -> Option<String> {
    let given = request.field(name);
    let found = values.iter().find(|value| Some(value.as_str()) == given);
    if found.is_none() && (given.is_some() || !values.is_empty()) {
        problems.push(format!("`{name}` must be one of: {}", values.join(", ")));
    }
    found.cloned()
}
