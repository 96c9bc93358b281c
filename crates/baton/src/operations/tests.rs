mod desk;
mod figures;
mod limits;
mod lists;
mod projects;
mod tasks;
mod wishes;
