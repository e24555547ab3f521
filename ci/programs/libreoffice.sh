#!/bin/sh
# Converts a page with tables to a document, and the document to text and PDF.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
{
    echo '<html><body><h1>Report</h1>'
    for i in $(seq 60); do echo "<h2>Part $i</h2><p>Some <b>bold</b> text, number $i.</p><table border=1><tr><td>a$i</td><td>b$i</td></tr></table>"; done
    echo '</body></html>'
} >"$dir/page.html"
office() { HOME="$dir" soffice -env:UserInstallation="file://$dir/profile" --headless --norestore "$@" --outdir "$dir" >>"$dir/log" 2>&1; }
office --writer --convert-to odt "$dir/page.html" || { code=$?; tail -n 5 "$dir/log"; exit $code; }
office --convert-to txt:Text "$dir/page.odt"
office --convert-to pdf "$dir/page.odt"
md5sum <"$dir/page.txt"
wc -l <"$dir/page.txt"
head -c 4 "$dir/page.pdf"
