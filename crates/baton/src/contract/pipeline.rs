//! The stages of a project and how its work lands, as `baton.toml` says it.

use baton_domain::ids::{PrincipalId, ProjectId, StageName};
use baton_domain::project::{Landing, PassedBy, Project, StageSpec, WorkedBy};
use baton_domain::text::Line;
use baton_domain::time::Millis;

use crate::shape::Span;

use super::written::{self, Push, Stage, Written};
use super::{Error, line};

/// The stages of a repository, if nobody names others.
const USUAL: [&str; 3] = ["coding", "qa", "merge"];
/// Where a branch is pushed to, if nobody says where.
const REMOTE: &str = "origin";

/// The stages in their order, and how work lands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    pub stages: Vec<StageSpec>,
    pub landing: Landing,
    pub promote: bool,
    pub archive_after: Option<Millis>,
}

/// How verified work comes onto the target branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merge {
    /// Once a person has looked at it.
    Approve,
    /// By itself.
    Auto,
    /// Not at all: its branch stays.
    Off,
}

impl Pipeline {
    /// Reads it; none if the file has no such table.
    pub(super) fn read(written: &Written) -> Result<Option<Self>, Error> {
        let Some(pipeline) = &written.pipeline else { return Ok(None) };
        let usual = || USUAL.map(str::to_owned).to_vec();
        let names = pipeline.stages.clone().unwrap_or_else(usual);
        if let Some(unlisted) = written.stages.keys().find(|name| !names.contains(name)) {
            let rule = "is no stage of `pipeline.stages`".to_owned();
            return Err(Error::Invalid { field: format!("stages.{unlisted}"), rule });
        }
        let mut stages = vec![];
        for name in &names {
            stages.push(spec(name, written.stages.get(name))?);
        }
        follow(pipeline, &mut stages)?;
        let read = Self {
            stages,
            landing: landing(pipeline)?,
            promote: pipeline.promote.unwrap_or(true),
            archive_after: pipeline.archive_after.as_deref().map(span).transpose()?,
        };
        let id = ProjectId::new("any").map_err(|refusal| Error::of("pipeline", refusal))?;
        let checked = read.clone().over(Project::gone(id)).check();
        checked.map_err(|refusal| Error::of("pipeline.stages", refusal))?;
        Ok(Some(read))
    }

    /// A project with these stages.
    #[must_use]
    pub fn over(self, project: Project) -> Project {
        let Self { stages, landing, promote, archive_after } = self;
        Project { pipeline: stages, landing, promote, archive_after, ..project }
    }
}

fn spec(name: &str, written: Option<&Stage>) -> Result<StageSpec, Error> {
    let usual = match name {
        "qa" => WorkedBy::Baton,
        "merge" => WorkedBy::Train,
        _ => WorkedBy::Agent,
    };
    let worked_by = written.and_then(|stage| stage.worked_by).unwrap_or(usual);
    let passed_by = written.and_then(|stage| stage.passed_by).unwrap_or_default();
    let field = format!("stages.{name}");
    let name = StageName::new(name).map_err(|refusal| Error::of(&field, refusal))?;
    Ok(StageSpec { name, worked_by, passed_by })
}

/// Lets the stages follow what is said of merging: a person looks before the train, nobody does, or there is none.
fn follow(pipeline: &written::Pipeline, stages: &mut Vec<StageSpec>) -> Result<(), Error> {
    let merge = match pipeline.merge.as_deref() {
        None | Some("approve") => Merge::Approve,
        Some("auto") => Merge::Auto,
        Some("off") => Merge::Off,
        Some(_) => {
            let rule = "must be approve, auto or off".to_owned();
            return Err(Error::Invalid { field: "pipeline.merge".to_owned(), rule });
        }
    };
    let at = stages.iter().position(|spec| spec.worked_by == WorkedBy::Train);
    match (merge, at) {
        (Merge::Off, Some(at)) => {
            stages.remove(at);
        }
        (Merge::Approve, Some(at)) if at > 0 => stages[at - 1].passed_by = PassedBy::Person,
        (Merge::Approve | Merge::Auto | Merge::Off, _) => {}
    }
    Ok(())
}

fn landing(pipeline: &written::Pipeline) -> Result<Landing, Error> {
    let named = |field: &str, text: &Option<String>| -> Result<Option<Line>, Error> {
        text.clone().map(|text| line(field, text)).transpose()
    };
    let push = match &pipeline.push {
        None | Some(Push::Choice(false)) => None,
        Some(Push::Choice(true)) => Some(line("pipeline.push", REMOTE.to_owned())?),
        Some(Push::Remote(remote)) => Some(line("pipeline.push", remote.clone())?),
    };
    let home = pipeline.home.as_deref().map(PrincipalId::new).transpose();
    let home = home.map_err(|refusal| Error::of("pipeline.home", refusal))?;
    Ok(Landing { home, target: named("pipeline.target", &pipeline.target)?, push })
}

fn span(text: &str) -> Result<Millis, Error> {
    let Span(length) =
        text.parse().map_err(|refusal| Error::of("pipeline.archive_after", refusal))?;
    Ok(length)
}

#[cfg(test)]
mod tests;
