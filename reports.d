reports.o: src/accept/reports.cpp src/accept/reports.h \
 src/accept/verdict.h src/base/text.h
src/accept/reports.h:
src/accept/verdict.h:
src/base/text.h:
