#!/usr/bin/env bash
# Copyright The sample-controller authors.
# SPDX-License-Identifier: Apache-2.0
#
# Fails if a file was edited, removed or added in a folder that is kept, so that the next update would overwrite it. hack/kept.sum, which
# make new and its updates write, has a line with these folders, and a line with the hash of each file. Without it, nothing is kept.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ -f hack/kept.sum ]] || exit 0

read -r -a folders <<< "$(sed -n 1p hack/kept.sum)"
files=$(git --glob-pathspecs ls-files --cached --others --exclude-standard -- "${folders[@]}" | LC_ALL=C sort -u |
  while read -r file; do [[ ! -f ${file} ]] || printf '%s\n' "${file}"; done)
found=$(paste -d ' ' <(git hash-object --stdin-paths <<< "${files}") <(printf '%s\n' "${files}"))
changed=$(diff <(sed 1d hack/kept.sum) <(printf '%s\n' "${found}") | sed -n 's/^[<>] [^ ]* //p' | LC_ALL=C sort -u || true)
[[ -n ${changed} ]] || exit 0

has() { grep -q " $2\$" <<< "$1"; }
{
  while read -r file; do
    if ! has "$(< hack/kept.sum)" "${file}"; then
      echo "${file} was added to a folder that is kept. Move it to one of yours."
    else
      what=$(has "${found}" "${file}" && echo edited || echo removed)
      echo "${file} is kept, and was ${what}. Restore it: git checkout $(git log -1 --format=%h -- hack/kept.sum) -- ${file}"
    fi
  done <<< "${changed}"
  echo "The next update overwrites what is kept. What has to be different belongs in a folder of yours: hack/README.md says which these are."
} >&2
exit 1
