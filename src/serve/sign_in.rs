//! Pages and forms of users: who is let in, and which form leads where.

use hyper::StatusCode;
use serde_json::json;

use super::View;
use super::access::is_own_form;
use super::audit::{Event, Record};
use super::control::{Control, Visitor, see_other};
use super::users::Role;
use crate::error::Result;
use crate::http::server::{Answer, Request};

impl View<'_> {
    /// Answers a request where users sign in.
    pub(super) fn of_user(&self, control: &Control, request: &Request) -> Result<Answer> {
        let path = request.path.as_str();
        if request.form.is_some() && path == "/sign-in" {
            return self.sign_in(control, request);
        }
        let Some(visitor) = &self.visitor else {
            return self.sign_in_page(StatusCode::UNAUTHORIZED, None);
        };
        if request.form.is_some() {
            return self.form(control, visitor, request);
        }
        match path {
            "/sign-in" => Ok(see_other("/")),
            "/sign-out" => self.sign_out_page(visitor),
            "/start" => self.start_page(control, visitor, request),
            "/audit" if visitor.user.role == Role::Admin => self.trail(control),
            "/audit" => self.refuse(control, visitor, request, "only an admin reads the audit trail"),
            _ => match path.strip_prefix("/started/") {
                Some(id) => self.started(control, id),
                None => self.page(request),
            },
        }
    }

    /// Takes a form of a user.
    fn form(&self, control: &Control, visitor: &Visitor, request: &Request) -> Result<Answer> {
        if let Some(why) = control.foreign(visitor, request) {
            return self.refuse(control, visitor, request, why);
        }
        match request.path.as_str() {
            "/sign-out" => control.sign_out(visitor, request),
            _ if visitor.user.role < Role::Operator => {
                self.refuse(control, visitor, request, "a viewer reads only, and neither starts nor cancels a run")
            }
            "/start" => self.start(control, visitor, request),
            "/cancel" => self.cancel(control, visitor, request),
            _ => self.missing(),
        }
    }

    /// Refuses a request of a user, and records that.
    pub(super) fn refuse(&self, control: &Control, visitor: &Visitor, request: &Request, why: &str) -> Result<Answer> {
        let reason = format!("{}: {why}", request.path);
        control.refused(Some(&visitor.user), Record::of(Event::Refused, request.peer).because(reason))?;
        self.message(StatusCode::FORBIDDEN, &format!("This is refused: {why}."))
    }

    fn sign_in(&self, control: &Control, request: &Request) -> Result<Answer> {
        let refused = |why: &str| control.refused(None, Record::of(Event::SignInRefused, request.peer).because(why));
        if !is_own_form(request) {
            refused("the form was not sent by a page of this server")?;
            return self.sign_in_page(StatusCode::FORBIDDEN, Some("The form was not sent by a page of this server."));
        }
        let config = match control.configuration() {
            Ok(config) => config,
            Err(answer) => return Ok(*answer),
        };
        let token = request.field("token").unwrap_or_default().trim();
        // A valid token is accepted after any number of invalid ones, so that nobody can lock others out. Its 256 bits
        // need no limit on guesses; the limit only keeps the audit trail small.
        if let Some(answer) = control.sign_in(token, request, &config)? {
            return Ok(answer);
        }
        match refused("no user has the token")? {
            true => self.sign_in_page(StatusCode::UNAUTHORIZED, Some("No user has this token.")),
            false => self.sign_in_page(
                StatusCode::TOO_MANY_REQUESTS,
                Some("No user has this token, and there were too many wrong ones within a minute."),
            ),
        }
    }

    fn sign_in_page(&self, status: StatusCode, problem: Option<&str>) -> Result<Answer> {
        Ok(self.html(status, self.render("sign-in", "", json!({"title": "Sign in", "problem": problem}))?))
    }

    fn sign_out_page(&self, visitor: &Visitor) -> Result<Answer> {
        let page = json!({
            "title": "Sign out",
            "user": visitor.user.name,
            "role": visitor.user.role.word(),
            "form_token": visitor.session.form_token,
        });
        Ok(self.html(StatusCode::OK, self.render("sign-out", "/sign-out", page)?))
    }
}
