#!/bin/sh
echo '{"g": {"hosts": ["m1"]}, "_meta": {"hostvars": {"m1": {"k": [1]}, "m2": {"l": 2}}}}'
