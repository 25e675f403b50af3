//! Parameters of requests. What is not understood is refused, so that a misspelt filter does not answer with everything.

use std::str::FromStr;

use axum::{extract::Query, http::Uri};

use super::problem::Problem;

/// The parameters of one request.
pub(super) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads them.
    pub(super) fn of(uri: &Uri) -> Result<Self, Problem> {
        let Query(all) = Query::try_from_uri(uri)
            .map_err(|_| Problem::bad_request("the part after \"?\" is not of the form name=value&name=value"))?;
        Ok(Self(all))
    }

    /// Refuses names that are not among those known, and names given twice.
    pub(super) fn only(self, known: &[&str]) -> Result<Self, Problem> {
        for (index, (name, _)) in self.0.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                return Err(Problem::bad_request(format!(
                    "parameter \"{name}\" is not known here; known: {}",
                    known.join(", ")
                )));
            }
            if self.0.iter().take(index).any(|(before, _)| before == name) {
                return Err(Problem::bad_request(format!("parameter \"{name}\" is given twice")));
            }
        }
        Ok(self)
    }

    /// The text of a parameter.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Whether a parameter is there, with or without a value; `=false` and `=0` say that it is not.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.text(name).is_some_and(|value| !matches!(value, "false" | "0"))
    }

    /// All values of a parameter.
    pub(super) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A value of a type that is written as text; `what` says how.
    pub(super) fn parse<T: FromStr>(&self, name: &str, what: &str) -> Result<Option<T>, Problem> {
        let read = |text: &str| {
            text.parse().map_err(|_| Problem::bad_request(format!("parameter \"{name}\" is \"{text}\"; write {what}")))
        };
        self.text(name).map(read).transpose()
    }
}
