//! Names of tags and handlers that nothing has are reported, with the nearest one.

use crate::resume::{Project, head};

/// A project with one host.
fn project(playbook: &str, files: &[(&str, &str)]) -> Project {
    let project = Project::new(playbook);
    project.write("hosts", "a ansible_connection=local\n");
    files.iter().for_each(|(name, text)| project.write(name, text));
    project
}

#[test]
fn tags_that_select_nothing_are_reported_with_the_nearest() {
    let tasks = "    - {debug: msg=x, tags: [config]}\n    - {debug: msg=x, tags: [up]}\n";
    let plain = project(&(head("") + tasks), &[]);
    plain.play(&["--tags", "nothing-has-this"]).ends(0).has("[WARNING]: no task has the tag `nothing-has-this`\n");
    plain
        .play(&["--tags", "confg,xyz"])
        .ends(0)
        .has("no task has one of the tags `confg` (did you mean `config`?), `xyz`");
    plain.play(&["--tags", "config,confg"]).ends(0).has("no task has the tag `confg`: did you mean `config`?");
    for words in
        [&["--tags", "config,xyz"][..], &["--tags", "all"], &["--tags", "tagged"], &["--skip-tags", "xyz"], &[]]
    {
        plain.play(words).ends(0).lacks("no task has");
    }
    // A file that is included may have the tag.
    for (tags, is_silent) in [("always", true), ("up", false)] {
        let tasks = format!("    - {{include_tasks: more.yml, tags: [{tags}]}}\n");
        let included = project(&(head("") + &tasks), &[("more.yml", "- {debug: msg=x, tags: [xyz]}\n")]);
        let ran = included.play(&["--tags", "xyz"]);
        let _ = if is_silent { ran.lacks("no task has") } else { ran.has("no task has the tag `xyz`") };
    }
}

#[test]
fn misspelt_handler_is_named_before_the_run_and_the_recap_after_it() {
    let handlers =
        "  handlers:\n    - {name: restart nginx, debug: msg=x}\n    - {name: other, debug: msg=x, listen: topic}\n";
    let tasks = "    - {command: echo first, notify: [other, topic]}\n    - command: echo second\n      notify:\n        - restart nginx\n        - restat nginx\n";
    let misspelt = project(&(head("") + tasks + handlers), &[]);
    let sentence = "no handler of the play has the name or topic `restat nginx`";
    let place = "play.yml:9:11 notifies: did you mean `restart nginx`?";
    let ran = misspelt.play(&[]);
    ran.ends(1).has(&format!("[WARNING]: {sentence}")).has("The requested handler 'restat nginx' was not found");
    assert_eq!(ran.text.matches(sentence).count(), 1, "{}", ran.text);
    assert!(ran.text.split_whitespace().collect::<Vec<_>>().join(" ").contains(place), "{}", ran.text);
    ran.has("PLAY RECAP").has("a                          : ok=2    changed=2");
    misspelt.run(&["playbook", "-i", "hosts", "play.yml", "--list-tasks"]).ends(0).has(sentence);
}

#[test]
fn handlers_that_only_a_run_knows_are_not_reported_before_it() {
    let notifies = "    - {command: echo x, notify: unknown here}\n";
    let role = [
        ("roles/r/tasks/main.yml", "- {command: echo x, notify: ['r : own', own, topic]}\n"),
        ("roles/r/handlers/main.yml", "- {name: own, debug: msg=x, listen: [topic]}\n"),
    ];
    let included = "    - {include_role: {name: r}}\n".to_owned() + notifies;
    let templated = notifies.to_owned() + "  handlers:\n    - {name: '{{ word }}', debug: msg=x}\n";
    let skipped = "    - {command: echo x, notify: unknown here, tags: [never]}\n".to_owned();
    let of_value = "    - {command: echo x, notify: '{{ [] }}'}\n".to_owned();
    for (play, tasks) in [
        ("", included),
        ("  vars: {word: unknown here}\n", templated),
        ("", skipped),
        ("", of_value),
        ("  roles: [r]\n", String::new()),
    ] {
        project(&(head(play) + &tasks), &role).play(&["--list-tasks"]).ends(0).lacks("no handler of the play");
    }
    let tolerant =
        project(&(head("") + notifies), &[("ansible.cfg", "[defaults]\nerror_on_missing_handler = false\n")]);
    let ran = tolerant.play(&[]);
    ran.ends(0).lacks("no handler of the play").has("The requested handler 'unknown here' was not found");
}
