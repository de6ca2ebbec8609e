#!/bin/sh
echo nonsense
