#!/bin/sh
if [ "$1" = --list ]; then echo '{"g": ["s1", "s2"], "h": {"hosts": ["s3"], "vars": {"a": true}, "children": ["g"]}, "s4": {"x": 1}}'; else echo '{"host_var": "of '$2'"}'; fi
