#!/usr/bin/env bash
# Copyright The sample-controller authors.
# SPDX-License-Identifier: Apache-2.0
#
# The part of .ci/run that a controller which was created from this one does not have.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# The page of the lab is tested in Chromium, which apt-get installs if there is none.
if [[ -z ${CHROMIUM:-$(type -P chromium chromium-browser google-chrome google-chrome-stable)} ]]; then
  sudo=$([[ $EUID -eq 0 ]] || echo sudo)
  $sudo apt-get update
  $sudo apt-get install --yes --no-install-recommends chromium
fi
for target in test-lab-page test-cluster test-new test-zoo; do
  echo "=== after ${SECONDS} s: make ${target}"
  make "${target}"
done
