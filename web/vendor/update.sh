#!/bin/sh
# Takes the vendored libraries anew from npm, by package name and version, and rewrites what a
# browser cannot resolve by itself: bare import names become relative paths (an import map would
# have to be an inline script, which the Content-Security-Policy forbids).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$work"
npm init -y >/dev/null 2>&1
npm install --no-audit --no-fund --no-package-lock --ignore-scripts --silent \
  preact@11.2.0 htm@3.1.1 @preact/signals@2.11.4 @preact/signals-core@1.14.5 \
  uplot@1.6.32 @fontsource-variable/inter@5.3.0

relative() {
  sed -e 's|from *"preact"|from"./preact.js"|g' \
      -e 's|from *"preact/hooks"|from"./hooks.js"|g' \
      -e 's|from *"@preact/signals-core"|from"./signals-core.js"|g' \
      -e '/^\/\/# sourceMappingURL=/d' "$1"
}

modules=node_modules
relative $modules/preact/dist/preact.mjs >"$here/preact.js"
relative $modules/preact/hooks/dist/hooks.mjs >"$here/hooks.js"
relative $modules/htm/dist/htm.mjs >"$here/htm.js"
relative $modules/@preact/signals/dist/signals.mjs >"$here/signals.js"
relative $modules/@preact/signals-core/dist/signals-core.mjs >"$here/signals-core.js"
# uPlot's ES module is not minified (twice the size); the script form is, and becomes a module.
{ cat $modules/uplot/dist/uPlot.iife.min.js; printf '\nexport default uPlot;\n'; } >"$here/uplot.js"
cp $modules/uplot/dist/uPlot.min.css "$here/uplot.css"
cp $modules/@fontsource-variable/inter/files/inter-latin-wght-normal.woff2 "$here/inter.woff2"

for name in preact htm uplot; do cp "$modules/$name/LICENSE" "$here/LICENSE.$name"; done
cp $modules/@preact/signals/LICENSE "$here/LICENSE.signals"
cp $modules/@fontsource-variable/inter/LICENSE "$here/LICENSE.inter"

if grep -E 'from *"[^./]' "$here"/*.js; then
  echo "a bare import is left: add it to relative()" >&2
  exit 1
fi
